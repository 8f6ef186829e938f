// The reader of flat descriptions.
#include "kit_hcd.h"

#include "expect.h"

static kit_hcd *parse(const char *text) {
  char reason[200] = "";
  kit_hcd *hcd = kit_hcd_parse(text, strlen(text), reason, sizeof(reason));
  TRUE(hcd != NULL);
  return hcd;
}

static void refuse(const char *text, size_t bytes, const char *expected) {
  char reason[200] = "";
  TRUE(kit_hcd_parse(text, bytes, reason, sizeof(reason)) == NULL);
  CONTAINS(reason, expected);
}

static void test_values_are_read(void) {
  kit_hcd *hcd = parse("b.y\ttrue\na\t\nb.x\t12\nb.big\t2e9\nb.half\t0.5\nb.t\thello world\n");
  int64_t whole = -1;
  double real = -1;
  EQUAL(kit_hcd_count(hcd), 6);
  TRUE(strcmp(kit_hcd_path(hcd, 0), "a") == 0);  // Sorted, whatever the order of the text.
  EQUAL(kit_hcd_i64(hcd, "b.x", &whole), 1);
  EQUAL(whole, 12);
  EQUAL(kit_hcd_i64(hcd, "b.y", &whole), 1);
  EQUAL(whole, 1);
  EQUAL(kit_hcd_i64(hcd, "b.big", &whole), 1);
  EQUAL(whole, 2000000000);
  EQUAL(kit_hcd_i64(hcd, "b.half", &whole), 0);
  EQUAL(kit_hcd_i64(hcd, "b.t", &whole), 0);
  EQUAL(kit_hcd_i64(hcd, "a", &whole), 0);
  EQUAL(whole, 2000000000);
  EQUAL(kit_hcd_f64(hcd, "b.half", &real), 1);
  TRUE(real == 0.5);
  TRUE(strcmp(kit_hcd_text(hcd, "b.t"), "hello world") == 0);
  TRUE(kit_hcd_text(hcd, "b") == NULL);
  TRUE(kit_hcd_text(NULL, "b") == NULL);
  kit_hcd_free(hcd);
}

static void test_lists_are_read(void) {
  kit_hcd *hcd = parse("l\t[128, 16,4]\ns\t[\"f32\",\"a\\\"b\"]\ne\t[]\nbad\t[1,\nt\ttext\n");
  char item[16];
  int64_t whole = 0;
  EQUAL(kit_hcd_list_count(hcd, "l"), 3);
  EQUAL(kit_hcd_list_count(hcd, "e"), 0);
  EQUAL(kit_hcd_list_count(hcd, "bad"), -1);
  EQUAL(kit_hcd_list_count(hcd, "t"), -1);
  EQUAL(kit_hcd_list_i64(hcd, "l", 2, &whole), 1);
  EQUAL(whole, 4);
  EQUAL(kit_hcd_list_i64(hcd, "l", 3, &whole), 0);
  EQUAL(kit_hcd_list_has(hcd, "s", "f32"), 1);
  EQUAL(kit_hcd_list_has(hcd, "s", "f3"), 0);
  EQUAL(kit_hcd_list_item(hcd, "s", 1, item, sizeof(item)), 1);
  EQUAL(kit_hcd_list_item(hcd, "s", 0, item, 3), 0);
  kit_hcd_free(hcd);
}

static void test_ids_are_walked(void) {
  kit_hcd *hcd = parse("m.b.k\t1\nm.b.z\t2\nm.a-x.k\t1\nm.a.k\t1\nm.leaf\t3\nmm.c.k\t1\n");
  char id[8];
  size_t cursor = 0;
  EQUAL(kit_hcd_next_id(hcd, "m", &cursor, id, sizeof(id)), 1);
  TRUE(strcmp(id, "a-x") == 0);
  EQUAL(kit_hcd_next_id(hcd, "m", &cursor, id, sizeof(id)), 1);
  TRUE(strcmp(id, "a") == 0);
  EQUAL(kit_hcd_next_id(hcd, "m", &cursor, id, sizeof(id)), 1);
  TRUE(strcmp(id, "b") == 0);
  EQUAL(kit_hcd_next_id(hcd, "m", &cursor, id, sizeof(id)), 0);
  kit_hcd_free(hcd);
}

static void test_overlay_and_subtree(void) {
  kit_hcd *base = parse("a\t1\nd.x.h.b\t2\nd.x.h.c.d\t3\n");
  kit_hcd *overlay = parse("a\t9\nz\t8\n");
  kit_hcd *merged = kit_hcd_merge(base, overlay);
  kit_hcd *below = kit_hcd_subtree(base, "d.x.h.");
  EQUAL(kit_hcd_count(merged), 4);
  TRUE(strcmp(kit_hcd_text(merged, "a"), "9") == 0);
  EQUAL(kit_hcd_count(below), 2);
  TRUE(strcmp(kit_hcd_text(below, "c.d"), "3") == 0);
  kit_hcd_free(base);
  kit_hcd_free(overlay);
  kit_hcd_free(merged);
  kit_hcd_free(below);
}

int main(void) {
  test_values_are_read();
  test_lists_are_read();
  test_ids_are_walked();
  test_overlay_and_subtree();
  refuse("a\t1\nb 2\n", 8, "line 2: no tab");
  refuse("\t1\n", 3, "the path is empty");
  refuse("a\t1\nb\t1\na\t2\n", 12, "a path stands twice");
  refuse("a\0\t1\n", 5, "NUL");
  kit_hcd_free(parse(""));
  return 0;
}

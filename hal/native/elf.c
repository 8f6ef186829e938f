// Looks at a file before the dynamic linker does, so that a wrong file gets a plain answer.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "library.h"

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
#elif defined(__riscv)
enum { HOST_MACHINE = EM_RISCV };
#elif defined(__powerpc64__)
enum { HOST_MACHINE = EM_PPC64 };
#elif defined(__s390x__)
enum { HOST_MACHINE = EM_S390 };
#elif defined(__loongarch__)
enum { HOST_MACHINE = 258 };
#else
enum { HOST_MACHINE = EM_NONE };  // Leaves the check to the dynamic linker.
#endif

static const char *machine_name(uint32_t machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit ARM";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "PowerPC 64";
    case EM_S390:
      return "s390x";
    case 258:
      return "LoongArch";
    default:
      return "another machine";
  }
}

static const char *type_name(uint32_t type) {
  switch (type) {
    case ET_REL:
      return "an object file (link it with -shared)";
    case ET_EXEC:
      return "a program";
    case ET_CORE:
      return "a core dump";
    default:
      return "of an unknown type";
  }
}

static int32_t check_header(const unsigned char *head, const char *path, char *reason,
                            uint64_t capacity) {
  const int is_little = head[EI_DATA] == ELFDATA2LSB;
  const uint32_t type = is_little ? head[16] | head[17] << 8 : head[16] << 8 | head[17];
  const uint32_t machine = is_little ? head[18] | head[19] << 8 : head[18] << 8 | head[19];
  if (HOST_MACHINE != EM_NONE && machine != (uint32_t)HOST_MACHINE) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "%s is built for %s (ELF machine %u), this program for %s", path,
                      machine_name(machine), machine, machine_name((uint32_t)HOST_MACHINE));
  }
  if (head[EI_CLASS] != ELFCLASS64) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "%s is a 32-bit file, this program has 64 bits", path);
  }
  const uint16_t one = 1;
  if (is_little != (*(const unsigned char *)&one == 1)) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                      "%s has the other byte order than this machine", path);
  }
  if (type != ET_DYN) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "%s is not a shared object but %s",
                      path, type_name(type));
  }
  return HAL_OK;
}

// The dynamic linker maps what the header promises; a file that is cut short would kill the
// process.
static int32_t check_segments(int file, uint64_t file_bytes, const char *path, char *reason,
                              uint64_t capacity) {
  Elf64_Ehdr head;
  uint64_t needed = sizeof(head);
  if (pread(file, &head, sizeof(head), 0) == (ssize_t)sizeof(head)) {
    for (uint32_t i = 0; i < head.e_phnum; ++i) {
      Elf64_Phdr segment;
      const uint64_t at = head.e_phoff + (uint64_t)i * sizeof(segment);
      if (head.e_phentsize != sizeof(segment) || at > INT64_MAX ||
          pread(file, &segment, sizeof(segment), (off_t)at) != (ssize_t)sizeof(segment)) {
        needed = at + sizeof(segment);
        break;
      }
      const uint64_t end = segment.p_offset + segment.p_filesz;
      if (segment.p_type == PT_LOAD && end > needed) needed = end;
    }
  }
  if (needed <= file_bytes) return HAL_OK;
  return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                    "%s is cut short: its header speaks of %llu bytes, the file has %llu", path,
                    (unsigned long long)needed, (unsigned long long)file_bytes);
}

int32_t hal_elf_check(const char *path, char *reason, uint64_t capacity) {
  struct stat facts;
  if (stat(path, &facts) != 0) {
    const int32_t status =
        errno == ENOENT || errno == ENOTDIR ? HAL_ERROR_NOT_FOUND : HAL_ERROR_INVALID_VALUE;
    return hal_reason(reason, capacity, status, "%s: %s", path,
                      status == HAL_ERROR_NOT_FOUND ? "no such file" : strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "%s is %s, not a file", path,
                      S_ISDIR(facts.st_mode) ? "a folder" : "a device or a pipe");
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE, "%s: %s", path, strerror(errno));
  }
  unsigned char head[20] = {0};
  const ssize_t got = read(file, head, sizeof(head));
  int32_t status;
  if (got < (ssize_t)sizeof(head) || memcmp(head, ELFMAG, SELFMAG) != 0) {
    status = hal_reason(reason, capacity, HAL_ERROR_INVALID_VALUE,
                        "%s is not a shared object: it does not start with an ELF header", path);
  } else {
    status = check_header(head, path, reason, capacity);
  }
  if (status == HAL_OK) {
    status = check_segments(file, (uint64_t)facts.st_size, path, reason, capacity);
  }
  close(file);
  return status;
}

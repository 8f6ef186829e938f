"""Arrays: device memory with an element type and a shape, and its ways to other frameworks."""

"""Memory as streams and kernels take it: ranges on a device, and pinned or other host memory."""

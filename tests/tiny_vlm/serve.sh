#!/usr/bin/env bash
# Builds the tiny model if it is not there, and serves it on this machine: serve.sh PYTHON MODEL_DIR PORT.
# GET /health answers 200 after 40 to 200 seconds. Needs some 3 GB of memory.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: serve.sh PYTHON MODEL_DIR PORT"
python=${1:?$usage} model=${2:?$usage} port=${3:?$usage}
# Without TORCH_COMPILE_DISABLE the first request for log-probabilities compiles for most of a minute.
export PYTHONPATH=$here/shim VLLM_CPU_KVCACHE_SPACE=1 TORCH_COMPILE_DISABLE=1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
[ -f "$model/config.json" ] || "$python" "$here/build_model.py" "$model"
# `vllm serve` of this build looks for a package called vllm and fails; the module below is what it would run.
# disable_any_whitespace lets a model without sense finish JSON instead of writing blanks for ever.
exec "$python" -m vllm.entrypoints.openai.api_server --model "$model" --served-model-name judge \
  --host 127.0.0.1 --port "$port" --dtype float32 --max-model-len 16384 --enforce-eager --max-num-seqs 8 \
  --limit-mm-per-prompt '{"image":8,"video":0}' \
  --mm-processor-kwargs '{"size":{"shortest_edge":3136,"longest_edge":200704}}' \
  --enable-prompt-tokens-details --structured-outputs-config '{"backend":"xgrammar","disable_any_whitespace":true}'

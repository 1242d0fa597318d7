#!/usr/bin/env bash
# Tune Qwen-Image-Edit or FLUX.1 Kontext with LoRA and the reward server, with DiffusionNFT (Edit-R1) or flow_grpo.
#
# Not run by us: it needs several GPUs and one of these repositories, in which it is started. Scripts, configurations and
# the table of rewards were read at these commits; sizes (resolution, group, batch) are those of their configurations.
#   https://github.com/PKU-YuanGroup/Edit-R1   244883c   DiffusionNFT: Qwen-Image-Edit, FLUX.1-Kontext-dev
#   https://github.com/yifan123/flow_grpo      31c71b9   GRPO: Qwen/Qwen-Image-Edit
set -euo pipefail
JUDGE=${JUDGE:-Qwen/Qwen3-VL-8B-Instruct}
EXAMPLE=$(cd "$(dirname "$0")" && pwd)

# 1. The judge. On GPUs of its own, `rh serve judge $JUDGE --run` is enough. On the GPUs of the training it sleeps, and
#    needs: sleep mode, a share of the memory that fits beside the editor, and no cache of images, since that cache
#    outlives the sleep in one process of vLLM and not in the other (vllm-project/vllm issue 42995).
VLLM_SERVER_DEV_MODE=1 vllm serve "$JUDGE" --host 127.0.0.1 --port 8000 --enable-sleep-mode \
  --gpu-memory-utilization 0.3 --mm-processor-cache-gb 0 --no-enable-prefix-caching --max-model-len 32768 \
  --generation-config vllm &
until curl -sf http://127.0.0.1:8000/health; do sleep 5; done

# 2. The reward, pinned. Its cache of judgments is off: no edit is judged twice in a training.
rh release create --library builtin --judge "vllm:$JUDGE" --protocol pointwise --no-cache -o release.json --yes
rh serve --release release.json --judge "vllm:$JUDGE@http://127.0.0.1:8000/v1" --port 8100 &
until curl -sf http://127.0.0.1:8100/readyz; do sleep 1; done
RELEASE=$(python -c 'import json; print(json.load(open("release.json"))["id"])')
curl -sf -X POST 'http://127.0.0.1:8000/sleep?level=1'
export RELEASE REWARD_URL=http://127.0.0.1:8100 JUDGE_URLS=http://127.0.0.1:8000 PYTHONPATH=$EXAMPLE

# 3. The training. Before: name the function in the table of rewards as shared_gpu.py says, and the reward in the
#    configuration: config.reward_fn = {"mllm_rewardharness": 1.0} (Edit-R1) or {"rewardharness": 1.0} (flow_grpo).
#    The configurations of Edit-R1 are for more GPUs (kontext_mllm_reward: 24): set n_gpus to yours. LoRA: use_lora.
#    Data: DATASET/train_metadata.jsonl and test_metadata.jsonl with `prompt` and `image` (relative to DATASET).
GPUS=${GPUS:-8}
case ${1:-nft-qwen} in
  nft-qwen) torchrun --nproc_per_node="$GPUS" scripts/train_nft_qwen_image_edit.py \
    --config "config/qwen_image_edit_nft.py:${CONFIG:?a name in that file}" ;;
  nft-kontext) torchrun --nproc_per_node="$GPUS" scripts/train_nft_kontext.py \
    --config config/kontext_nft.py:kontext_mllm_reward ;;
  grpo-qwen) torchrun --standalone --nproc_per_node="$GPUS" scripts/train_qwenimage_edit.py \
    --config config/grpo.py:counting_qwenimage_edit_8gpu ;;
  *) echo "unknown training $1: nft-qwen, nft-kontext or grpo-qwen" >&2; exit 2 ;;
esac

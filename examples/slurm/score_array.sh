#!/bin/bash
#SBATCH --job-name=rh-score
#SBATCH --array=1-8
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --requeue
# Judges a dataset with a model on each of 8 GPUs. Each task starts vLLM on its GPU, waits until it answers, and judges its
# share into one folder that all tasks share; a task that is started again continues. Afterwards:
#   rh score status scores && rh score merge scores scores.parquet
#
#   sbatch examples/slurm/score_array.sh Qwen/Qwen2.5-VL-7B-Instruct ORG/EDITS scores
set -euo pipefail
model=$1 data=$2 output=$3

judge=$(mktemp -d)
trap 'rm -rf "$judge"' EXIT
port=$((8000 + SLURM_ARRAY_TASK_ID)) # tasks of one node have ports of their own
rh serve judge "$model" --slurm --gpus 1 --port "$port" > "$judge/judge.sh"
bash "$judge/judge.sh" score "$data" --output "$output" --engine local \
  --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --protocol pointwise --yes

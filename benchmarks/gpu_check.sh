#!/usr/bin/env bash
# What a GPU makes of the suite, in at most 10 minutes: fills the section "On a GPU" of RESULTS.md.
#
#   benchmarks/gpu_check.sh [FOLDER]
#
# PROTEINS in 10 folds; the loss of a first epoch beside the CPU's; seconds of an epoch and memory in
# single, half and bfloat16 precision; two GPUs together (NCCL) if there are two. UNIONSNN_MIRROR
# names a copy of the data where there is no network. ACCELERATOR=cpu EPOCHS=1 tries the script out
# on a machine without a GPU, and leaves RESULTS.md alone.
set -euo pipefail
folder=${1:-gpu_check}
python=${PYTHON:-python}
export ACCELERATOR=${ACCELERATOR:-gpu} OMP_NUM_THREADS=1
here=$(cd "$(dirname "$0")" && pwd)
if [ "$ACCELERATOR" = gpu ] && ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "gpu_check.sh: torch finds no GPU here; run it where nvidia-smi shows one, with a torch build for CUDA." >&2
  exit 2
fi
mkdir -p "$folder"
unionsnn() { "$python" -c "from unionsnn.cli import main; main()" -q "$@" "paths.output=$folder/runs"; }
begin=$SECONDS
# What does not end in its time is stopped and named in the report.
bounded() { local name=$1 limit=$2; shift 2; export -f unionsnn; export python folder
  local start=$SECONDS status=0
  timeout --signal=TERM --kill-after=20 "$limit" bash -c 'unionsnn "$@"' _ "$@" > "$folder/$name.log" 2>&1 || status=$?
  echo "$name $((SECONDS - start)) $status" >> "$folder/times.txt"; }
: > "$folder/times.txt"
epochs=${EPOCHS:-100}
for model in gin unionsnn; do
  bounded "$model" 180 train data=proteins "model=$model" protocol=cross_validation force=true \
    "trainer.max_epochs=$epochs" "protocol.patience=$epochs" "trainer.accelerator=$ACCELERATOR"
done
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())')
if [ "$gpus" -ge 2 ]; then
  bounded nccl 60 train data=proteins model=unionsnn trainer=ddp trainer.devices=2 force=true \
    trainer.max_epochs=5 trainer.accelerator=gpu
fi
left=$((570 - (SECONDS - begin)))
timeout "$((left > 30 ? left : 30))" "$python" - "$folder" "$here/RESULTS.md" "$epochs" "$gpus" <<'PYTHON'
import json
import os
import re
import sys
import time
from pathlib import Path

import torch

from unionsnn import train
from unionsnn.base.environment import environment
from unionsnn.config.compose import compose_config
from unionsnn.runs.costs import timed_training

folder, results, epochs, gpus = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
accelerator, begin = os.environ["ACCELERATOR"], time.monotonic()
cuda = accelerator == "gpu"
card = torch.cuda.get_device_name() if cuda else "cpu"
lines = ["## On a GPU", "", f"`benchmarks/gpu_check.sh`, {time.strftime('%Y-%m-%d')}, {card}, torch"
         f" {torch.__version__}, CUDA {torch.version.cuda}, {gpus} GPU(s), revision"
         f" {environment().get('git_revision', '?')}.", "",
         f"PROTEINS, 10 folds of {epochs} epochs, the whole command:", "",
         "| model | seconds | |", "|---|---:|---|"]
for name, seconds, status in map(str.split, (folder / "times.txt").read_text().splitlines()):
    note = {"0": "", "124": "stopped at its limit"}.get(status, f"status {status}, see {name}.log")
    lines.append(f"| {name} | {seconds} | {note} |")
if gpus < 2:
    lines += ["", "NCCL was not tried: there is one GPU."]
lines += ["", "Training loss of the first epoch on PROTEINS, its difference from the CPU's:", ""]
for model in ("gin", "unionsnn"):
    words = ["data=proteins", f"model={model}", "trainer.max_epochs=1", "force=true"]
    losses = []
    for each in (accelerator, "cpu"):
        place = [f"paths.output={folder}/{each}", f"trainer.accelerator={each}"]
        done = train([*words, "protocol=holdout", *place], progress=False)
        record = json.loads((done.folder / "repetitions" / "00.json").read_text())
        losses.append(record["curves"][0]["train_loss"])
    lines.append(f"- {model}: {losses[0]:.6f}, {abs(losses[0] - losses[1]):.1e}")
lines += ["", "An epoch of training and validation, PROTEINS, batches of 32:", "",
          "| model | precision | seconds | peak memory |", "|---|---|---:|---:|"]
precisions = ("32-true", "16-mixed", "bf16-mixed") if cuda else ("32-true", "bf16-mixed")
for model in ("gin", "unionsnn", "unionsnn gate=paper", "gatedgcn", "union_gps"):
    for precision in precisions:
        if time.monotonic() - begin > 150:
            lines.append(f"| {model} | {precision} | no time left | |")
            continue
        words = [f"model={model}", "data=proteins", "trainer.max_epochs=4"]
        config = compose_config([w for each in words for w in each.split()]
                                + [f"trainer.accelerator={accelerator}",
                                   f"trainer.precision={precision}", "trainer.progress=none"])
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        try:
            cost = timed_training(config).seconds
        except Exception as error:
            lines.append(f"| {model} | {precision} | {type(error).__name__}: {error} | |")
            continue
        peak = f"{torch.cuda.max_memory_allocated() / 2**20:.0f} MiB" if cuda else "–"
        lines.append(f"| {model} | {precision} | {cost:.3f} | {peak} |")
section = "\n".join(lines) + "\n"
(folder / "section.md").write_text(section)
print(section)
text = results.read_text()
if cuda:
    other = re.sub(r"\n## On a GPU\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL).rstrip()
    results.write_text(f"{other}\n\n{section}")
PYTHON

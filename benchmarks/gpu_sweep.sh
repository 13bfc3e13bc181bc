#!/usr/bin/env bash
# Studies on a GPU: tu_grid_smoke with two workers on the card, and one trial of
# zinc_union_gps_smoke; then the same grid on the CPU. Prints card, trials per minute, peak memory
# and the largest difference of the objective. Usage: benchmarks/gpu_sweep.sh [FOLDER]
set -euo pipefail
folder=${1:-gpu_sweep}
python=${PYTHON:-python}
export WANDB_MODE=offline OMP_NUM_THREADS=1
mkdir -p "$folder"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$folder/card.txt"
nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --loop-ms=500 > "$folder/memory.txt" &
watch=$!
trap 'kill $watch' EXIT
sweep() { "$python" -c "from unionsnn.cli import main; main()" -q sweep "$@" "paths.output=$folder/runs" "paths.data=$folder/data"; }
sweep tu_grid_smoke --name gpu --workers 2 trainer.accelerator=gpu ${LOGGER:+logger=$LOGGER} --json > "$folder/gpu.json"
sweep zinc_union_gps_smoke --name zinc --trials 1 trainer.accelerator=gpu ${LOGGER:+logger=$LOGGER} --json > "$folder/zinc.json"
sweep tu_grid_smoke --name cpu trainer.accelerator=cpu --json > "$folder/cpu.json"
"$python" - "$folder" <<'PYTHON'
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
gpu, cpu, zinc = (json.loads((folder / f"{n}.json").read_text()) for n in ("gpu", "cpu", "zinc"))
peak = max(map(int, (folder / "memory.txt").read_text().split()))
pairs = [(a["values"][0], b["values"][0]) for a, b in zip(gpu["trials"], cpu["trials"])]
print((folder / "card.txt").read_text().strip())
print(f"tu_grid_smoke, 2 workers: {60 * len(pairs) / gpu['seconds']:.1f} trials a minute, final run included")
print(f"peak memory of the card: {peak} MiB")
print(f"zinc_union_gps_smoke: {zinc['objectives'][0]} {zinc['trials'][0]['values'][0]:.4f}")
print(f"largest difference of the objective from the CPU's: {max(abs(a - b) for a, b in pairs):.6f}")
PYTHON

# exit 5
cat > train.py <<'PY'
import os, sys
print(os.environ["RANK"], os.environ["TORCHELASTIC_RUN_ID"], os.environ["TORCHELASTIC_MAX_RESTARTS"],
      os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"), sys.argv[1:])
PY
mkdir pkg
cp train.py pkg/__main__.py
# Underscores, variables of torchrun, and flags after the script that are the script's.
adaptdl torchrun --nproc_per_node=1 --rdzv_id job --rdzv-backend=c10d --standalone train.py --help -t 9
PET_NPROC_PER_NODE=2 PET_MAX_RESTARTS=4 adaptdl torchrun -t 1 --local-ranks-filter=1 -m pkg --epochs=3
# Two tasks of srun, each on its own.
for task in 0 1; do
  SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$task \
    adaptdl torchrun --standalone --no-python sh -c 'echo "$RANK of $WORLD_SIZE"'
done
adaptdl torchrun --nnodes 1:1 --no-python sh -c 'exit 5'

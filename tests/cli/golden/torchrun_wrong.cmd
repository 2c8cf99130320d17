# exit 2
: > train.py
adaptdl torchrun --nnodes 2 train.py; echo $?
adaptdl torchrun --nnodes=1:no --rdzv-endpoint a:1 train.py; echo $?
adaptdl torchrun --node-rank 1 train.py; echo $?
adaptdl torchrun --standalone --nnodes 2 train.py; echo $?
adaptdl torchrun --nproc-per-node many train.py; echo $?
adaptdl torchrun --nproc-per-node gpu train.py; echo $?
adaptdl torchrun no.py; echo $?
adaptdl torchrun -m --no-python train.py; echo $?
adaptdl torchrun --nproc train.py; echo $?
PET_MAX_RESTARTS=no adaptdl torchrun train.py; echo $?
adaptdl torchrun

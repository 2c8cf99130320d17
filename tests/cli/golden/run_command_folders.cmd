# exit 2
# A command gets the folders that the environment names; --fresh empties only those of the run.
mkdir -p train.run/checkpoints/checkpoint-3
show='echo $ADAPTDL_CHECKPOINT_PATH $ADAPTDL_SHARE_PATH $ADAPTDL_TENSORBOARD_LOGDIR'
adaptdl run --name train -- sh -c "$show"
adaptdl run --name train --fresh -- sh -c "$show; ls train.run/checkpoints"
export ADAPTDL_CHECKPOINT_PATH=$PWD/saved ADAPTDL_SHARE_PATH=$PWD/shared
export ADAPTDL_TENSORBOARD_LOGDIR=$PWD/charts
mkdir -p saved/checkpoint-4
adaptdl run --name train -- sh -c "$show"
adaptdl torchrun --no-python sh -c "$show"
adaptdl run --name train --checkpoint-dir own --tensorboard curves -- sh -c "$show"
adaptdl run --name outer -- adaptdl run --name inner -- sh -c "$show"
# A replica of a job, which would train by itself.
ADAPTDL_NUM_REPLICAS=2 ADAPTDL_JOB_ID=lab/a adaptdl run --name train -- echo alone
ADAPTDL_RESCALE=live adaptdl run --name train -- echo never; echo $?
adaptdl run --name train --fresh -- echo never

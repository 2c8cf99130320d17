# exit 0
archive train.pt
mkdir meet
export ADAPTDL_WORKER=$FAKE_WORKER
adaptdl run train.pt -q --tensorboard 'my charts' -- steps=5 step_ms=5 dir=$PWD/meet
ls 'my charts'

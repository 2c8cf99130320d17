# exit 0
archive train.pt
mkdir meet
export ADAPTDL_WORKER=$FAKE_WORKER
adaptdl run train.pt -q -- steps=5 step_ms=5 dir=$PWD/meet > first
adaptdl run train.pt -- steps=5 step_ms=5 dir=$PWD/meet

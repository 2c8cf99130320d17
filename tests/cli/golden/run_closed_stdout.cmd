# exit 1
archive train.pt
mkdir meet
ADAPTDL_WORKER=$FAKE_WORKER adaptdl run train.pt -q -o json -- steps=5 step_ms=5 dir=$PWD/meet >&-

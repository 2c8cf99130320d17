# exit 0
archive train.pt
mkdir meet
ADAPTDL_WORKER=$FAKE_WORKER adaptdl run train.pt --replicas-at 5:2 -- steps=150 step_ms=20 gather=2 \
  dir=$PWD/meet

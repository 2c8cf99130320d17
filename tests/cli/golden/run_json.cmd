# exit 0
archive train.pt
mkdir meet
ADAPTDL_WORKER=$FAKE_WORKER adaptdl run train.pt --name other -o json --step-events 10 -- \
  steps=20 step_ms=5 dir=$PWD/meet > events
python3 -c "
import json
for line in open(\"events\"):
    event = json.loads(line)
    print(event[\"event\"], event.get(\"step\"), event.get(\"result\"), \"time_s\" in event)"

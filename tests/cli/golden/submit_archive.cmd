# exit 0
archive train.pt
service adaptdl submit train.pt --set epochs=3 -o json
python3 -c '
import json
spec = json.loads(open("requests").read())["spec"]
print(spec["kind"], spec["program"], spec["settings"])'
ls "$ADAPTDL_LOCAL_STATE"/jobs/.incoming-*

# exit 1
checkpoint checkpoints 40 damaged
adaptdl inspect checkpoints -o json | python3 -c "
import json, sys
found = json.load(sys.stdin)
print(found['damages'], [t['intact'] for t in found['tensors']])"
rm checkpoints/step-000000000040/data.bin
adaptdl inspect checkpoints/step-000000000040 | tail -6
sed -i s/digits/others/ checkpoints/step-000000000040/manifest.json
adaptdl inspect checkpoints

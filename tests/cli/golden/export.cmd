# exit 0
adaptdl init linear there -q > files
adaptdl export there/train.pt weights.safetensors
adaptdl export weights.safetensors state.pth -o json
adaptdl export state.pth again.safetensors
cmp weights.safetensors again.safetensors && python3 -c "
import json, struct
with open('weights.safetensors', 'rb') as file:
    header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
print(sorted(header), header['weight'])"

# exit 0
adaptdl init linear there -q > files
adaptdl inspect there/train.pt | head -9 | sed 's/file .*/file SIZE/'
adaptdl inspect there/train.pt -o json --set epochs=7 | python3 -c "
import json, sys
result = json.load(sys.stdin)
print(sorted(result), [s['value'] for s in result['settings'] if s['key'] == 'epochs'])"

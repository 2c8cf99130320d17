# exit 0
adaptdl doctor | cut -c1-20 | grep -v "^ *$"| sed "s/^\(ok\|--\|!!\) /xx /" | grep "^xx"
adaptdl doctor -o json | python3 -c "
import json, sys
result = json.load(sys.stdin)
for check in result[\"checks\"]:
    print(sorted(check), check[\"name\"], check[\"status\"] in (\"ok\", \"note\", \"missing\"))
print(type(result[\"ok\"]).__name__)"

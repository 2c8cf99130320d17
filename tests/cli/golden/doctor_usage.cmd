# exit 2
adaptdl doctor --format yaml
adaptdl doctor --ports 5-6
adaptdl doctor --hosts localhost
adaptdl doctor --hosts a,b --ports 6-5

# exit 0
adaptdl init linear there && ls there
adaptdl init digits -q -o json
adaptdl init linear there --force -q

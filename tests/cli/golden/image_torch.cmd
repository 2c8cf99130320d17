# exit 1
# without worker
adaptdl image push localhost:1/torch --with-torch

# exit 1
mkdir there && touch there/mine
adaptdl init linear there

# exit 1
adaptdl init linear there -q > files
cp there/train.pt before
ln -s train.pt there/link.pt
adaptdl export there/train.pt there/link.pt
adaptdl export there/train.pt there/train.pt
code=$?
cmp before there/train.pt && ls there
exit $code

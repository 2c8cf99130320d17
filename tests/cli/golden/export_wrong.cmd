# exit 2
echo text > text
adaptdl export text out.safetensors
adaptdl export nowhere.pt out.pt
test ! -e out.safetensors && echo nothing
adaptdl export text out.onnx

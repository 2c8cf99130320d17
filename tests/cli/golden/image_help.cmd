# exit 0
adaptdl image
adaptdl image build --help
adaptdl image push --help

# exit 2
mkdir app
adaptdl image build app
adaptdl image build app --output a.tar
adaptdl image build app --base scratch --output a.tar --build-arg x
adaptdl image build app --base 'NO:where' --output a.tar
adaptdl image push no/good@
adaptdl image build

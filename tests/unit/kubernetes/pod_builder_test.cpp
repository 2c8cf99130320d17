#include "core/cluster/kubernetes/pod_builder.h"

#include <doctest/doctest.h>
#include <map>

#include "tests/unit/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

const PodSettings kSettings = {.supervisor_url = "http://sched:8080",
                               .scheduler_version = "0.2.11"};

JobObject allocated(Json spec = Json::object()) {
  return read_sample(std::move(spec),
                     Json::parse(R"({"group": 2, "allocation": ["n1", "n1", "n2"]})"));
}

std::map<std::string, std::string> variables(const Json& pod) {
  std::map<std::string, std::string> result;
  for (const Json& entry : pod["spec"]["containers"][0]["env"]) {
    const std::string name = entry["name"];
    CHECK_FALSE(result.contains(name));
    result[name] = entry.value("value", "");
  }
  return result;
}

}  // namespace

TEST_CASE("a pod has what AdaptDL's programs look for") {
  const Json pod = make_pod(allocated(), {1, "n1"}, "host-1", kSettings);
  const Json& metadata = pod["metadata"];
  CHECK(metadata["name"] == "digits-u-1-2-1");
  CHECK(metadata["namespace"] == "team-a");
  CHECK(metadata["labels"] == Json::parse(R"({"team": "a", "adaptdl": "true",
                                              "adaptdl/job": "digits",
                                              "petuum.com/nodegroup": "all"})"));
  CHECK(metadata["annotations"] ==
        Json::parse(R"({"adaptdl/replicas": "3", "adaptdl/group": "2", "adaptdl/rank": "1",
                        "adaptdl/node": "n1"})"));
  CHECK(metadata["ownerReferences"][0]["uid"] == "u-1");
  CHECK(pod["spec"]["hostname"] == "digits-2-1");
  CHECK(pod["spec"]["restartPolicy"] == "Never");
  CHECK(pod["spec"]["nodeSelector"] == Json{{"kubernetes.io/hostname", "host-1"}});
  CHECK(pod["spec"]["volumes"][0]["name"] == "adaptdl-shm");
  auto environment = variables(pod);
  CHECK(environment["A"] == "1");
  CHECK(environment["ADAPTDL_JOB_ID"] == "team-a/digits");
  CHECK(environment["ADAPTDL_MASTER_PORT"] == "47002");
  CHECK(environment["ADAPTDL_NUM_NODES"] == "2");
  CHECK(environment["ADAPTDL_NUM_REPLICAS"] == "3");
  CHECK(environment["ADAPTDL_NUM_RESTARTS"] == "2");
  CHECK(environment["ADAPTDL_REPLICA_RANK"] == "1");
  CHECK(environment["ADAPTDL_SCHED_VERSION"] == "0.2.11");
  CHECK(environment["ADAPTDL_SUPERVISOR_URL"] == "http://sched:8080/j/$(ADAPTDL_JOB_TOKEN)");
  CHECK(environment["NVIDIA_VISIBLE_DEVICES"] == "none");
}

TEST_CASE("the Secret of a token is named after what it holds") {
  PodSettings settings = kSettings;
  settings.token = [](const JobObject& job) { return "of " + job.uid; };
  JobObject job = allocated();
  const auto named = [&] {
    const Json pod = make_pod(job, {0, "n1"}, "n1", settings);
    for (const Json& entry : pod["spec"]["containers"][0]["env"]) {
      if (entry["name"] == "ADAPTDL_JOB_TOKEN") {
        return entry["valueFrom"]["secretKeyRef"]["name"].get<std::string>();
      }
    }
    return std::string();
  };
  const std::string first = named();
  CHECK(first == make_token_secret(job, "of u-1")["metadata"]["name"]);
  CHECK(first.starts_with("adaptdl-token-digits-"));
  CHECK(first == named());
  job.uid = "u-2";  // made anew
  CHECK(first != named());
}

TEST_CASE("what the user set stays, but for what the protocol needs") {
  const Json pod = make_pod(allocated(Json::parse(R"({"template": {"spec": {
    "containers": [{"env": [{"name": "ADAPTDL_REPLICA_RANK", "value": "9"},
                            {"name": "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "value": "0"}],
                    "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm"}],
                    "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    "restartPolicy": "Always", "nodeSelector": {"disk": "ssd"}}}})")),
                            {0, "n1"}, "n1", kSettings);
  auto environment = variables(pod);
  CHECK(environment["ADAPTDL_REPLICA_RANK"] == "0");
  CHECK(environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "0");
  CHECK_FALSE(environment.contains("NVIDIA_VISIBLE_DEVICES"));
  CHECK(pod["spec"]["nodeSelector"]["disk"] == "ssd");
  CHECK(pod["spec"]["restartPolicy"] == "Never");
  CHECK(pod["spec"]["containers"][0]["volumeMounts"].size() == 1);
}

TEST_CASE("a host's name fits, whatever the job's") {
  JobObject job = allocated();
  job.name = std::string(50, 'a') + "." + std::string(12, 'b');
  const std::string host = make_pod(job, {0, "n1"}, "n1", kSettings)["spec"]["hostname"];
  CHECK(host.size() <= 63);
  CHECK(host.find('.') == std::string::npos);
  CHECK(host.ends_with("-2-0"));
}

TEST_CASE("defaults and patches of the installation") {
  PodSettings settings = kSettings;
  settings.default_resources = Json::parse(R"({"requests": {"cpu": 1}})");
  settings.patch_containers = Json::parse(R"([{"op": "add", "path": "/tty", "value": true}])");
  settings.patch_pods =
      Json::parse(R"([{"op": "add", "path": "/spec/priorityClassName", "value": "low"}])");
  Json pod = make_pod(allocated(), {0, "n1"}, "n1", settings);
  CHECK(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m");  // the user's
  CHECK(pod["spec"]["containers"][0]["tty"] == true);
  CHECK(pod["spec"]["priorityClassName"] == "low");
  pod = make_pod(
      allocated(Json::parse(R"({"template": {"spec": {"containers": [{"image": "i"}]}}})")),
      {0, "n1"}, "n1", settings);
  CHECK(pod["spec"]["containers"][0]["resources"] == settings.default_resources);
  settings.patch_containers = Json::parse(R"([{"op": "replace", "path": "", "value": "x"}])");
  CHECK_THROWS_WITH_AS(make_pod(allocated(), {0, "n1"}, "n1", settings),
                       doctest::Contains("job.patch.containers"), Error);
  settings.patch_containers = Json();
  settings.patch_pods = Json::parse(R"([{"op": "remove", "path": "/spec/none"}])");
  CHECK_THROWS_WITH_AS(make_pod(allocated(), {0, "n1"}, "n1", settings),
                       doctest::Contains("job.patch.pods"), Error);
}

TEST_CASE("a template that makes no pod is an Error") {
  for (const char* odd :
       {"null", "{}", R"({"spec": {"containers": "none"}})", R"({"spec": {"containers": [5]}})"}) {
    CHECK_THROWS_AS(
        make_pod(allocated({{"template", Json::parse(odd)}}), {0, "n1"}, "n1", kSettings), Error);
  }
}

#include "core/cluster/kubernetes/jobs/pod_builder.h"

#include <doctest/doctest.h>
#include <map>

#include "tests/unit/cluster/kubernetes/sample_objects.h"

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

Json present_pod(const JobObject& job, const PodPlace& place, const std::string& hostname,
                 const PodSettings& settings) {
  return make_pod(job, job.status, place, {.hostname = hostname, .accelerator = ""}, settings);
}

}  // namespace

TEST_CASE("a pod has what AdaptDL's programs look for") {
  const Json pod = present_pod(allocated(), {1, "n1"}, "host-1", kSettings);
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

TEST_CASE("a pod has torchrun's variables, unless its template has them or it rescales live") {
  const JobObject job = allocated();
  const Json pod = present_pod(job, {1, "n1"}, "host-1", kSettings);
  CHECK(pod["spec"]["subdomain"] == "adaptdl-u-1");
  auto environment = variables(pod);
  const std::map<std::string, std::string> expected = {
      {"RANK", "1"},
      {"WORLD_SIZE", "3"},
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "3"},
      {"ROLE_RANK", "1"},
      {"ROLE_WORLD_SIZE", "3"},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", "digits-2-0.adaptdl-u-1"},
      {"MASTER_PORT", "48002"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "digits"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", "/dev/termination-log"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK(environment[name] == value);
  }
  const Json service = service_of(job);
  CHECK(service["metadata"]["name"] == "adaptdl-u-1");
  CHECK(service["spec"]["selector"] == Json{{"adaptdl/job", "digits"}});
  CHECK(service["spec"]["clusterIP"] == "None");
  CHECK(service["spec"]["publishNotReadyAddresses"] == true);

  const Json own = present_pod(allocated(Json::parse(R"({"template": {"spec": {
    "subdomain": "mine", "containers": [{"env": [{"name": "ROLE_NAME", "value": "actor"},
                                                 {"name": "MASTER_PORT", "value": "29500"}]}]}}})")),
                               {1, "n1"}, "n1", kSettings);
  CHECK(own["spec"]["subdomain"] == "mine");
  CHECK(variables(own)["MASTER_ADDR"] == "digits-2-0.mine");
  CHECK(variables(own)["MASTER_PORT"] == "29500");
  CHECK(variables(own)["ROLE_NAME"] == "actor");

  JobObject alone = allocated();
  alone.status.allocation = {"n1"};
  const Json one = present_pod(alone, {0, "n1"}, "n1", kSettings);
  CHECK_FALSE(one["spec"].contains("subdomain"));
  CHECK(variables(one)["MASTER_ADDR"] == "127.0.0.1");

  JobObject live = allocated();
  live.live = true;
  const Json agent = present_pod(live, {1, "n1"}, "n1", kSettings);
  CHECK_FALSE(agent["spec"].contains("subdomain"));
  CHECK_FALSE(variables(agent).contains("MASTER_ADDR"));
}

TEST_CASE("pods are told of the supervisor over HTTPS, too") {
  PodSettings settings = kSettings;
  settings.secure_supervisor_url = "https://sched:8443";
  settings.supervisor_authorities = [] { return std::string("PEM"); };
  JobObject job = allocated();
  for (const bool live : {false, true}) {
    job.live = live;
    auto told = variables(present_pod(job, {1, "n1"}, "n1", settings));
    CHECK(told["ADAPTDL_SUPERVISOR_HTTPS_URL"] == "https://sched:8443/j/$(ADAPTDL_JOB_TOKEN)");
    CHECK(told["ADAPTDL_SUPERVISOR_CA"] == "PEM");
    CHECK(told["ADAPTDL_SUPERVISOR_URL"] == "http://sched:8080/j/$(ADAPTDL_JOB_TOKEN)");
  }
  CHECK_FALSE(variables(present_pod(job, {1, "n1"}, "n1", kSettings))
                  .contains("ADAPTDL_SUPERVISOR_HTTPS_URL"));
}

TEST_CASE("a pod is told the kind of its node's accelerators, as the scheduler calls it") {
  const JobObject job = allocated();
  PodNode node{.hostname = "n1", .accelerator = "Tesla-T4"};
  const auto told = [&] {
    auto environment = variables(make_pod(job, job.status, {0, "n1"}, node, kSettings));
    return environment.contains("ADAPTDL_ACCELERATOR") ? environment["ADAPTDL_ACCELERATOR"]
                                                       : "nothing";
  };
  CHECK(told() == "Tesla-T4");
  node.accelerator.clear();
  CHECK(told() == "nothing");  // the program sees for itself
}

TEST_CASE("the Secret of a job is named after what it holds") {
  PodSettings settings = kSettings;
  settings.keys = [](const JobObject& job) { return JobKeys{"of " + job.uid, "links"}; };
  JobObject job = allocated();
  const auto named = [&](const char* variable = "ADAPTDL_JOB_TOKEN") {
    const Json pod = present_pod(job, {0, "n1"}, "n1", settings);
    for (const Json& entry : pod["spec"]["containers"][0]["env"]) {
      if (entry["name"] == variable) {
        return entry["valueFrom"]["secretKeyRef"]["name"].get<std::string>();
      }
    }
    return std::string();
  };
  const std::string first = named();
  const Json secret = make_secret(job, {"of u-1", "links"});
  CHECK(secret["metadata"]["name"] == Json(first));
  CHECK(secret["stringData"] == Json{{"token", "of u-1"}, {"links", "links"}});
  CHECK(named("ADAPTDL_LINK_KEY") == first);
  CHECK(first.starts_with("adaptdl-token-digits-"));
  CHECK(first == named());
  job.uid = "u-2";  // made anew
  CHECK(first != named());
}

TEST_CASE("what the user set stays, but for what the protocol needs") {
  const Json pod = present_pod(allocated(Json::parse(R"({"template": {"spec": {
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

TEST_CASE("torch.load reads pickles only where the job or the installation needs it") {
  JobObject job = allocated(Json::parse(R"({"template": {"spec": {"containers": [{}]}}})"));
  PodSettings settings = kSettings;
  const auto set = [&] {
    auto environment = variables(present_pod(job, {0, "n1"}, "n1", settings));
    return environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"];
  };
  CHECK(set() == "");
  job.status.load_pickles = true;
  CHECK(set() == "1");
  job.status.load_pickles = false;
  settings.load_pickles = true;
  CHECK(set() == "1");
}

TEST_CASE("pods have a token for the API server only if they ask for it") {
  const auto mounted = [](const std::string& spec) {
    const JobObject job =
        allocated(Json::parse(R"({"template": {"spec": {"containers": [{}])" + spec + "}}}"));
    return present_pod(job, {0, "n1"}, "n1", kSettings)["spec"].value(
        "automountServiceAccountToken", Json());
  };
  CHECK(mounted("") == Json(false));
  CHECK(mounted(R"(, "automountServiceAccountToken": true)") == Json(true));
  CHECK(mounted(R"(, "serviceAccountName": "mine")") == Json());
}

TEST_CASE("a program with a proxy asks the supervisor without it") {
  PodSettings settings = kSettings;
  settings.supervisor_url = "http://sched.lab.svc:8080";
  const auto with = [&](const char* environment) {
    return variables(present_pod(
        allocated(Json::parse(fmt::format(
            R"({{"template": {{"spec": {{"containers": [{{"env": {}}}]}}}}}})", environment))),
        {0, "n1"}, "n1", settings));
  };
  CHECK_FALSE(with("[]").contains("no_proxy"));
  auto environment = with(R"([{"name": "HTTP_PROXY", "value": "http://p:1"}])");
  CHECK(environment["no_proxy"] == "sched.lab.svc");
  CHECK(environment["NO_PROXY"] == "sched.lab.svc");
  environment = with(R"([{"name": "http_proxy", "value": "http://p:1"},
                         {"name": "NO_PROXY", "value": "10.0.0.0/8,.local"}])");
  CHECK(environment["NO_PROXY"] == "10.0.0.0/8,.local,sched.lab.svc");
  CHECK_FALSE(environment.contains("no_proxy"));  // it would hide the other
  environment = with(R"([{"name": "all_proxy", "value": "http://p:1"},
                         {"name": "no_proxy", "value": "*"}, {"name": "NO_PROXY"}])");
  CHECK(environment["no_proxy"] == "*");
  CHECK(environment["NO_PROXY"] == "sched.lab.svc");
  environment = with(R"([{"name": "http_proxy", "value": "http://p:1"},
                         {"name": "no_proxy", "valueFrom": {"configMapKeyRef": {}}}])");
  CHECK(environment["no_proxy"] == "");

  // One that the installation adds.
  settings.patch_containers = Json::parse(R"([{"op": "add", "path": "/env/-",
                                               "value": {"name": "http_proxy", "value": "p"}}])");
  settings.supervisor_url = "http://[fd00::1]:8080";
  CHECK(with("[]")["no_proxy"] == "fd00::1");
}

TEST_CASE("only containers that are given no GPU are shown none") {
  PodSettings settings = kSettings;
  const auto hidden = [&](const char* resources) {
    Json container = {{"image", "i"}};
    if (*resources != '\0') container["resources"] = Json::parse(resources);
    JobObject job =
        allocated({{"template", {{"spec", {{"containers", Json::array({container})}}}}}});
    auto environment = variables(present_pod(job, {0, "n1"}, "n1", settings));
    return environment["NVIDIA_VISIBLE_DEVICES"] == "none";
  };
  for (const char* none :
       {"", "null", "{}", R"({"limits": {"nvidia.com/gpu": 0, "cpu": 1}, "claims": []})",
        R"({"limits": {"nvidia.com/gpu": "0"}, "requests": null})"}) {
    INFO(none);
    CHECK(hidden(none));
  }
  for (const char* some :
       {R"({"limits": {"nvidia.com/mig-3g.20gb": 1}})",
        R"({"limits": {"nvidia.com/gpu.shared": 1}})", R"({"limits": {"example.com/vgpu": "1"}})",
        R"({"requests": {"nvidia.com/gpu": "1"}})", R"({"claims": [{"name": "gpu"}]})"}) {
    INFO(some);
    CHECK_FALSE(hidden(some));
  }

  // By the installation.
  settings.default_resources = Json::parse(R"({"limits": {"nvidia.com/gpu": 1}})");
  CHECK_FALSE(hidden(""));
  settings.default_resources = Json();
  const Json patch = Json::parse(
      R"([{"op": "add", "path": "/resources", "value": {"limits": {"nvidia.com/gpu": 1}}}])");
  settings.patch_containers = patch;
  CHECK_FALSE(hidden(""));
  settings.patch_containers = Json();
  settings.patch_pods = patch;
  settings.patch_pods[0]["path"] = "/spec/containers/0/resources";
  CHECK_FALSE(hidden(""));
}

TEST_CASE("jobs in their nodes' network find the supervisor, and do not meet each other") {
  PodSettings settings = kSettings;
  const auto pod_of = [&](const char* spec, const char* uid = "u-1", int group = 2) {
    JobObject job = allocated({{"template", {{"spec", Json::parse(spec)}}}});
    job.uid = uid;
    job.status.group = group;
    return present_pod(job, {0, "n1"}, "n1", settings);
  };
  const auto port_of = [](const Json& pod) { return variables(pod)["ADAPTDL_MASTER_PORT"]; };
  const char* const usual = R"({"containers": [{"image": "i"}]})";
  const char* const on_host = R"({"containers": [{"image": "i"}], "hostNetwork": true})";
  CHECK(port_of(pod_of(usual)) == "47002");
  CHECK_FALSE(pod_of(usual)["spec"].contains("dnsPolicy"));
  CHECK(pod_of(on_host)["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet");
  CHECK(pod_of(R"({"containers": [{"image": "i"}], "hostNetwork": true,
                   "dnsPolicy": "Default"})")["spec"]["dnsPolicy"] == "Default");
  const int first = std::stoi(port_of(pod_of(on_host)));
  CHECK(first >= kMasterPort);
  CHECK(first < kMasterPort + kMasterPorts);
  CHECK(port_of(pod_of(on_host)) == std::to_string(first));
  CHECK(port_of(pod_of(on_host, "u-2")) != std::to_string(first));
  CHECK(port_of(pod_of(on_host, "u-1", 3)) != std::to_string(first));

  CHECK(variables(pod_of(on_host))["MASTER_PORT"] == std::to_string(first + kMasterPorts));
  CHECK(variables(pod_of(R"({"hostNetwork": true, "containers": [
                             {"env": [{"name": "MASTER_PORT", "value": "29500"}]}]})"))
            ["MASTER_PORT"] == "29500");

  settings.patch_pods =
      Json::parse(R"([{"op": "add", "path": "/spec/hostNetwork", "value": true}])");
  CHECK(port_of(pod_of(usual)) == std::to_string(first));
}

TEST_CASE("a host's name fits, whatever the job's") {
  JobObject job = allocated();
  job.name = std::string(50, 'a') + "." + std::string(12, 'b');
  const std::string host = present_pod(job, {0, "n1"}, "n1", kSettings)["spec"]["hostname"];
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
  Json pod = present_pod(allocated(), {0, "n1"}, "n1", settings);
  CHECK(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m");  // the user's
  CHECK(pod["spec"]["containers"][0]["tty"] == true);
  CHECK(pod["spec"]["priorityClassName"] == "low");
  for (const char* container :
       {R"({"image": "i"})", R"({"resources": {}})", R"({"resources": null})"}) {
    INFO(container);
    const Json spec = {{"containers", Json::array({Json::parse(container)})}};
    pod = present_pod(allocated({{"template", {{"spec", spec}}}}), {0, "n1"}, "n1", settings);
    CHECK(pod["spec"]["containers"][0]["resources"] == settings.default_resources);
  }
  settings.patch_containers = Json::parse(R"([{"op": "replace", "path": "", "value": "x"}])");
  CHECK_THROWS_WITH_AS(present_pod(allocated(), {0, "n1"}, "n1", settings),
                       doctest::Contains("job.patch.containers"), Error);
  settings.patch_containers = Json();
  settings.patch_pods = Json::parse(R"([{"op": "remove", "path": "/spec/none"}])");
  CHECK_THROWS_WITH_AS(present_pod(allocated(), {0, "n1"}, "n1", settings),
                       doctest::Contains("job.patch.pods"), Error);
}

TEST_CASE("a template that makes no pod is an Error") {
  for (const char* odd :
       {"null", "{}", R"({"spec": {"containers": "none"}})", R"({"spec": {"containers": [5]}})"}) {
    CHECK_THROWS_AS(
        present_pod(allocated({{"template", Json::parse(odd)}}), {0, "n1"}, "n1", kSettings),
        Error);
  }
}

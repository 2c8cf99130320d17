// What registries and users say: names of images, challenges, addresses, manifests with configs
// (the config behind the first line break), indexes.

#include "core/base/error.h"
#include "core/oci/auth.h"
#include "core/oci/image.h"
#include "core/oci/media_types.h"
#include "core/oci/url.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::oci;

namespace {

// A name that is understood reads back as itself.
void check_reference(std::string_view text) {
  try {
    const Reference reference = parse_reference(text, "it");
    ADAPTDL_CHECK(parse_reference(to_string(reference), "it") == reference);
    ADAPTDL_CHECK(!reference.version().empty());
  } catch (const Error&) {
  }
}

void check_location(std::string_view text) {
  try {
    const std::string url = resolve_location("https://r.io/v2/a/blobs/uploads/", text);
    ADAPTDL_CHECK(!url_origin(url).empty());
    if (text.starts_with('/') && !text.starts_with("//")) {
      ADAPTDL_CHECK(url_origin(url) == "https://r.io");
    }
    ADAPTDL_CHECK(url_origin(keep_secure("https://r.io/v2/", url)).starts_with("https://"));
  } catch (const Error&) {
  }
}

void check_image(std::string_view text) {
  const size_t end = std::min(text.find('\n'), text.size());
  try {
    const Manifest manifest{kOciManifest, "", std::string(text.substr(0, end))};
    Image image = read_image(manifest, text.substr(end), "it");
    append_layer(image, {"/nowhere", "sha256:1", "sha256:2", 3}, "fuzz");
    settings(image)["WorkingDir"] = "/";
    set_environment(image, "A", "B");
    ADAPTDL_CHECK(environment(image, "A") == "B");
    note_setting(image, "fuzz");
    const FinishedImage finished = finish_image(image);
    image.media_type = manifest.media_type;
    ADAPTDL_CHECK(finished.manifest.find("sha256:2") != std::string::npos);
  } catch (const Error&) {
  }
  try {
    ADAPTDL_CHECK(is_digest(choose_manifest(text, {"linux", "amd64", ""}, "it")));
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz_text(data, size);
  check_reference(text);
  check_location(text);
  for (const Challenge& challenge : parse_challenges(text)) {
    ADAPTDL_CHECK(!challenge.scheme.empty());
  }
  check_image(text);
  return 0;
}

FuzzSeeds fuzz_seeds() {
  const std::string digest = "sha256:" + std::string(64, 'a');
  return {{"registry.example.com:5000/team/app:v1@" + digest, "alpine", "[::1]:5000/a__b/c--d",
           "Bearer realm=\"https://a.io/t\",service=\"s\",scope=repository:a:pull, Basic realm=x",
           "https://cdn.io/b?c=d", "u1?_state=x",
           R"({"config":{"mediaType":"m","digest":")" + digest +
               R"(","size":1,"data":""},"layers":[{"mediaType":"l","digest":")" + digest +
               R"(","size":2}]})"
               "\n"
               R"({"rootfs":{"diff_ids":["d"]},"config":{"Env":["A=1"]},"history":[]})",
           R"({"manifests":[{"digest":")" + digest +
               R"(","platform":{"os":"linux","architecture":"amd64"}}]})"},
          {digest,        "docker.io/",
           "localhost/",  "@",
           ":",           "/",
           "__",          "://",
           "//",          "?",
           "\"",          "=",
           ", ",          "Bearer ",
           "null",        "\"history\":",
           "\"config\":", "\"platform\":",
           "[]",          "{}"}};
}

#include "cli/templates/templates.h"

#include <doctest/doctest.h>

#include "tests/unit/data/fixtures.h"

using namespace adaptdl;
using fixtures::contains;
using fixtures::error_of;

TEST_CASE("every example's settings and data fit together") {
  const TemporaryDirectory folder;
  const std::string text = fixtures::write(folder, "text", std::string(30000, 'a'));
  for (const auto& entry : templates::all()) {
    const std::string name(entry.name);
    const std::string out = folder.file(name);
    templates::Options options;
    if (entry.takes_text) options.text_files = {text};
    const auto written = templates::write(name, out, options);
    CHECK_FALSE(written.about.empty());
    for (const auto& file : written.files) CHECK(file_size(join_path(out, file)) > 0);
    const std::string first = read_file(join_path(out, written.files.front()), 1 << 20);
    std::string settings;
    if (entry.is_archive) {
      CHECK(written.files.front() == "train.pt");
      CHECK(first.substr(0, 2) == "PK");
      settings = read_file(join_path(out, "adaptdl.yaml"), 1 << 20);
    } else {
      CHECK(written.files.front() == "train.cpp");
      const size_t begin = first.find("R\"(") + 3;
      settings = first.substr(begin, first.find(")\";", begin) - begin);
    }
    const TrainingSpec spec = parse_training_spec(settings, name);
    if (entry.is_archive) CHECK(spec.name == name);
    const data::Data data = data::open_data(spec.data, out);
    REQUIRE(data.validation.has_value());
    CHECK(data.train.columns().size() == 2);

    CHECK(contains(error_of([&] { templates::write(name, out, options); }), "already exists"));
    options.force = true;
    templates::write(name, out, options);
  }
}

TEST_CASE("the digits are what they were") {
  const TemporaryDirectory folder;
  templates::write("digits", folder.path());
  DataSource source;
  source.path = "images.npy";
  const auto images = data::open_column(source, folder.path());
  source.path = "labels.npy";
  const auto labels = data::open_column(source, folder.path());
  CHECK(images->rows() == 1797);
  CHECK(images->shape() == std::vector<int64_t>{1, 8, 8});
  CHECK(fixtures::rows<int64_t>(*labels, {0, 1, 9, 1796}) == std::vector<int64_t>{0, 1, 9, 8});
  const auto first = fixtures::rows<uint8_t>(*images, {0});
  CHECK(std::vector<uint8_t>(first.begin(), first.begin() + 8) ==
        std::vector<uint8_t>{0, 0, 5, 13, 9, 1, 0, 0});
}

TEST_CASE("text that is missing or too short is refused before anything is written") {
  const TemporaryDirectory folder;
  const std::string text = fixtures::write(folder, "text", "too short");
  const std::string out = folder.file("out");
  CHECK(contains(error_of([&] { templates::write("chars", out, {{text}}); }), "has 9 bytes"));
  CHECK_FALSE(error_of([&] { templates::write("chars", out, {{"/no/such/file"}}); }).empty());
  CHECK_FALSE(path_exists(out));
}

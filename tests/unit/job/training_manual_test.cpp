#include "core/job/training_manual.h"

#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/job/setting_field.h"

using namespace adaptdl;

TEST_CASE("adaptdl-train(5) holds the table of settings as it is") {
  const std::string path = std::string(ADAPTDL_SOURCE_DIR) + "/man/adaptdl-train.5";
  const std::string page = read_file(path, 1 << 20);
  const std::string begin = ".\\\" BEGIN SETTINGS (generated; see training_manual.h)\n";
  const std::string end = ".\\\" END SETTINGS\n";
  const size_t from = page.find(begin), to = page.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::string held = page.substr(from + begin.size(), to - from - begin.size());
  const std::string wanted = document_training_settings(Markup::roff);
  if (held != wanted && getenv("ADAPTDL_ACCEPT") != nullptr) {
    write_file_atomic(path, page.substr(0, from + begin.size()) + wanted + page.substr(to));
    return;
  }
  CHECK_MESSAGE(held == wanted,
                "man/adaptdl-train.5 differs from the table of settings; run this "
                "test with ADAPTDL_ACCEPT=1 to update it");
}

TEST_CASE("every setting is documented and has its key in both markups") {
  const std::string roff = document_training_settings(Markup::roff);
  const std::string markdown = document_training_settings(Markup::markdown);
  const settings::Table& all = settings::table();
  for (const settings::Section* section :
       {&all.root, &all.data, &all.source, &all.batch, &all.optimizer, &all.optimizer_numbers,
        &all.group, &all.schedule, &all.best, &all.early_stopping, &all.from}) {
    for (const settings::Field& field : section->fields) {
      CHECK_FALSE(field.doc.empty());
      CHECK(roff.find(".B " + std::string(field.key) + "\n") != std::string::npos);
      CHECK(markdown.find("| `" + std::string(field.key) + "` |") != std::string::npos);
    }
  }
}

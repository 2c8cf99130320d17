#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/templates/templates.h"
#include "core/base/files.h"

namespace adaptdl::cli {
namespace {

std::string how_to_build(const std::string& folder, bool meson) {
  const std::string build = shell_word(join_path(folder, "build"));
  const std::string source = shell_word(folder);
  return meson ? fmt::format("meson setup {} {} && ninja -C {}", build, source, build)
               : fmt::format("cmake -B {} -S {} && cmake --build {}", build, source, build);
}

int run_init(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  const std::string folder = arguments.positional("DIR").value_or(name);
  const templates::Template& chosen = *templates::find(name);
  const std::vector<std::string> texts = arguments.list("text");
  if (!texts.empty() && !chosen.takes_text) {
    throw UsageError(fmt::format("--text: {} has data of its own.", name));
  }
  if (!arguments.text("build").empty() && chosen.is_archive) {
    throw UsageError(fmt::format("--build: {} is an archive, which needs no building.", name));
  }
  const bool meson = arguments.text("build") == "meson";
  const bool force = arguments.flag("force");
  if (!force && is_directory(folder) && !list_directory(folder).empty()) {
    fail("{}: the folder is not empty; name another, or give --force to replace files in it",
         folder);
  }
  const templates::Written written =
      templates::write(name, folder, {.text_files = texts, .meson = meson, .force = force});
  std::vector<std::string> paths;
  for (const std::string& file : written.files) paths.push_back(join_path(folder, file));
  const std::string program =
      shell_word(join_path(folder, chosen.is_archive ? "train.pt" : "build/train"));
  const std::string next = chosen.is_archive
                               ? "adaptdl run " + program
                               : how_to_build(folder, meson) + " && adaptdl run " + program;
  if (arguments.json()) {
    print_json({{"files", paths}, {"about", written.about}, {"next", next}});
    return 0;
  }
  for (const std::string& path : paths) print_line(path);
  if (!arguments.quiet()) {
    talk(fmt::format("{}\nTrain it:  {}", written.about, next));
  }
  return 0;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> result;
  for (const templates::Template& one : templates::all()) result.push_back(one.name);
  return result;
}

}  // namespace

Command init_command() {
  return {
      .name = "init",
      .summary = "Write a working example: an archive or a C++ program, with its data",
      .text = embedded("init.md"),
      .options =
          {{.name = "text",
            .kind = Kind::file,
            .value = "FILE",
            .doc = "Text for chars to learn. Default: the licence texts installed on this machine.",
            .repeat = true},
           {.name = "build",
            .kind = Kind::choice,
            .value = "cmake|meson",
            .doc = "What builds the program of library. Default: cmake.",
            .choices = {"cmake", "meson"}},
           {.name = "force", .doc = "Replace existing files."},
           format_option()},
      .positionals = {{.name = "NAME",
                       .kind = Kind::choice,
                       .doc = "digits, chars, linear or library.",
                       .choices = names()},
                      {.name = "DIR",
                       .kind = Kind::directory,
                       .doc = "Folder to write to; created if missing. Default: NAME.",
                       .required = false}},
      .examples = {{"adaptdl init digits digits", "Then: adaptdl run digits/train.pt"},
                   {"adaptdl init chars poems --text poems.txt", "Learn your own text."},
                   {"adaptdl init library mine", "A C++ program with a loop of its own."}},
      .run = run_init};
}

}  // namespace adaptdl::cli

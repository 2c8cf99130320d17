// Replays a log of the recorder: at each point, the trees that the disk may hold if the power fails
// there, each checked by a subject.
//
// Usage: power_replay SUBJECT LOG SCRATCH SEED IMAGES [--only POINT:SEED]
// SCRATCH: a folder for the trees, best in memory. IMAGES: trees for each point; the first is the
// one without anything that was not synced, the second the one with everything, the others are
// drawn from SEED. Prints the number of points and of trees; after a failure, what repeats it.
// Exits 1 after a failure.

#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/log.h"
#include "tests/power/disk.h"
#include "tests/power/log.h"
#include "tests/power/subject.h"

namespace {

using power::Op;
using power::Record;

std::unique_ptr<power::Subject> subject_of(const std::string& name) {
  if (name == "checkpoints") return power::checkpoint_subject();
  if (name == "service") return power::service_subject();
  if (name == "model") return power::model_subject();
  throw std::runtime_error("no such subject: " + name);
}

// Data that are written through memory would not be in the log.
void refuse_mapped(const std::vector<Record>& records) {
  std::map<uint64_t, std::string> names;
  for (const Record& record : records) {
    if (record.op == Op::create) names[record.inode] = record.name;
    if (record.op == Op::map && !names[record.inode].ends_with("-shm")) {
      throw std::runtime_error("a program writes to " + names[record.inode] + " through memory");
    }
  }
}

struct Options {
  std::string scratch;
  uint64_t seed = 0, images = 3;
  size_t only_point = ~size_t{0};
  uint64_t only_seed = 0;
};

std::string checked(const power::Disk& disk, power::Subject& subject, const std::string& tree,
                    uint64_t seed) {
  adaptdl::remove_tree(tree);
  disk.write_image(tree, seed);
  try {
    return subject.check(tree);
  } catch (const std::exception& error) {
    return error.what();
  }
}

int replay(const std::string& name, const std::vector<Record>& records, const Options& options) {
  const auto subject = subject_of(name);
  power::Disk disk;
  size_t points = 0;
  uint64_t trees = 0;
  for (size_t point = 0; point < records.size(); ++point) {
    disk.apply(records[point]);
    if (records[point].op == Op::mark) subject->mark(records[point].text);
    if (options.only_point != ~size_t{0} && options.only_point != point) continue;
    ++points;
    for (uint64_t image = 0; image < options.images; ++image) {
      const uint64_t drawn = (options.seed << 32) + (uint64_t{point} << 8) + image;
      uint64_t seed = image < 2 ? image : drawn;
      if (options.only_point == point) seed = options.only_seed;
      ++trees;
      const std::string tree = options.scratch + "/tree";
      const std::string problem = checked(disk, *subject, tree, seed);
      if (!problem.empty()) {
        fmt::print("{}: after record {} of {}, with seed {}: {}\nit repeats with --only {}:{}\n",
                   name, point, records.size(), seed, problem, point, seed);
        return 1;
      }
      if (options.only_point == point) break;
    }
  }
  fmt::print("{}: {} points, {} trees, nothing lost\n", name, points, trees);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 6 && count != 8) throw std::runtime_error("see the head of replay.cpp");
    Options options{
        .scratch = words[3], .seed = std::stoull(words[4]), .images = std::stoull(words[5])};
    if (count == 8) {
      const std::string only = words[7];
      options.only_point = std::stoull(only);
      options.only_seed = std::stoull(only.substr(only.find(':') + 1));
    }
    adaptdl::set_log_level(adaptdl::LogLevel::error);
    const std::vector<Record> records = power::read_log(words[2]);
    refuse_mapped(records);
    return replay(words[1], records, options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "power_replay: {}\n", error.what());
    return 2;
  }
}

#include "tests/power/disk.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace power {
namespace {

constexpr size_t kNone = ~size_t{0};
constexpr int64_t kExchange = 2;  // RENAME_EXCHANGE
constexpr size_t kSector = 512;   // bytes that a disk writes as a whole
// How much the disk has of what is not synced; 1: all of it.
constexpr int kNothing = 0, kBeginning = 2, kSome = 3, kModes = 4;

void apply_write(std::string& bytes, const Record& record, size_t most = std::string::npos) {
  if (record.op == Op::truncate) {
    bytes.resize(static_cast<size_t>(record.number));
    return;
  }
  const size_t count = std::min(most, record.text.size()), at = static_cast<size_t>(record.number);
  if (bytes.size() < at + count) bytes.resize(at + count);
  bytes.replace(at, count, record.text, 0, count);
}

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("the log of the disk: " + why);
}

void write_file(const std::string& path, const std::string& bytes) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) refuse("cannot write " + path);
  const bool good = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !good) refuse("cannot write " + path);
}

}  // namespace

size_t Disk::at(uint64_t inode) const {
  const auto found = by_inode_.find(inode);
  if (found == by_inode_.end()) refuse("an unknown inode " + std::to_string(inode));
  return found->second;
}

size_t Disk::add(uint64_t inode, Object::Kind kind) {
  objects_.push_back({.kind = kind, .bytes = "", .unsynced = {}, .names = {}});
  return by_inode_[inode] = objects_.size() - 1;
}

void Disk::note(const Record& record, size_t object) {
  const size_t folder = at(record.folder);
  const size_t folder2 = record.op == Op::rename ? at(record.folder2) : folder;
  changes_.push_back({&record, folder, folder2, object});
}

void Disk::apply(const Record& record) {
  switch (record.op) {
    case Op::root:
      add(record.inode, Object::Kind::folder);
      break;
    case Op::create:
      note(record, add(record.inode, Object::Kind::file));
      break;
    case Op::make_folder:
      note(record, add(record.inode, Object::Kind::folder));
      break;
    case Op::make_symlink:
      objects_[add(record.inode, Object::Kind::symlink)].bytes = record.text;
      note(record, at(record.inode));
      break;
    case Op::link:
      note(record, at(record.inode));
      break;
    case Op::remove:
      // Sockets, for example, are not recorded.
      if (by_inode_.contains(record.inode)) note(record, at(record.inode));
      break;
    case Op::rename:
      note(record, at(record.inode));
      break;
    case Op::write:
    case Op::truncate:
      objects_[at(record.inode)].unsynced.push_back(&record);
      break;
    case Op::sync:
      if (Object& object = objects_[at(record.inode)]; object.kind == Object::Kind::folder) {
        sync_folder(at(record.inode));
      } else {
        for (const Record* write : object.unsynced) apply_write(object.bytes, *write);
        object.unsynced.clear();
      }
      break;
    case Op::sync_all:
      for (Object& object : objects_) {
        for (const Record* write : object.unsynced) apply_write(object.bytes, *write);
        object.unsynced.clear();
      }
      for (size_t i = 0; i < objects_.size(); ++i) sync_folder(i);
      break;
    case Op::map:
    case Op::mark:
      break;
  }
}

void Disk::change(std::map<size_t, Names>& names, const Change& change) {
  const Record& record = *change.record;
  Names& here = names[change.folder];
  if (record.op == Op::remove) {
    here.erase(record.name);
  } else if (record.op != Op::rename) {
    here[record.name] = change.object;
  } else if (record.number == kExchange) {
    std::swap(here[record.name], names[change.folder2][record.text]);
  } else {
    here.erase(record.name);
    names[change.folder2][record.text] = change.object;
  }
}

void Disk::sync_folder(size_t folder) {
  // With a rename between two folders, the earlier changes of the other one.
  std::set<size_t> synced = {folder};
  std::vector<bool> now(changes_.size());
  for (size_t i = changes_.size(); i-- > 0;) {
    const Change& change = changes_[i];
    if (!synced.contains(change.folder) && !synced.contains(change.folder2)) continue;
    synced.insert({change.folder, change.folder2});
    now[i] = true;
  }
  std::vector<Change> later;
  for (size_t i = 0; i < changes_.size(); ++i) {
    if (!now[i]) {
      later.push_back(changes_[i]);
      continue;
    }
    std::map<size_t, Names> names;
    for (const size_t of : {changes_[i].folder, changes_[i].folder2}) {
      names[of] = std::move(objects_[of].names);
      objects_[of].names.clear();
      if (changes_[i].folder == changes_[i].folder2) break;
    }
    change(names, changes_[i]);
    for (auto& [of, all] : names) objects_[of].names = std::move(all);
  }
  changes_ = std::move(later);
}

std::map<size_t, Disk::Names> Disk::names_after(Random& random, int mode) const {
  std::map<size_t, Names> names;
  for (const Change& change : changes_) {
    for (const size_t of : {change.folder, change.folder2}) {
      if (!names.contains(of)) names[of] = objects_[of].names;
    }
  }
  const size_t count = mode == kNothing     ? 0
                       : mode == kBeginning ? random() % (changes_.size() + 1)
                                            : changes_.size();
  std::set<size_t> over;  // folders that hold no later change
  for (size_t i = 0; i < count; ++i) {
    const Change& next = changes_[i];
    const bool stops = mode == kSome && random() % 4 == 0;
    if (stops || over.contains(next.folder) || over.contains(next.folder2)) {
      over.insert({next.folder, next.folder2});
    } else {
      change(names, next);
    }
  }
  return names;
}

std::string Disk::bytes_after(const Object& file, Random& random, int mode) {
  std::string bytes = file.bytes;
  const size_t all = file.unsynced.size();
  const size_t count = mode == kNothing ? 0 : mode == kBeginning ? random() % (all + 1) : all;
  for (size_t i = 0; i < count; ++i) {
    if (mode != kSome || random() % 2 == 0) apply_write(bytes, *file.unsynced[i]);
  }
  if (mode == kBeginning && count < all && file.unsynced[count]->op == Op::write) {
    const size_t sectors = file.unsynced[count]->text.size() / kSector;
    apply_write(bytes, *file.unsynced[count], random() % (sectors + 1) * kSector);
  }
  return bytes;
}

void Disk::write_image(const std::string& path, uint64_t seed) const {
  Random random(seed);
  const auto pick = [&] {
    return seed < 2 ? static_cast<int>(seed) : static_cast<int>(random() % kModes);
  };
  const std::map<size_t, Names> changed = names_after(random, pick());
  const int data = pick();
  const bool each = seed >= 2 && random() % 2 == 0;  // of the files in its own way
  std::map<size_t, std::string> written;             // of files with several names
  const std::function<void(size_t, const std::string&)> write = [&](size_t index,
                                                                    const std::string& where) {
    const Object& object = objects_[index];
    if (object.kind == Object::Kind::symlink) {
      if (::symlink(object.bytes.c_str(), where.c_str()) != 0) refuse("cannot link " + where);
    } else if (object.kind == Object::Kind::folder) {
      if (::mkdir(where.c_str(), 0700) != 0) refuse("cannot make " + where);
      const auto names = changed.find(index);
      for (const auto& [name, inside] : names == changed.end() ? object.names : names->second) {
        // The memory that SQLite's processes share: its content is not data, and it is made anew.
        if (!name.ends_with("-shm")) write(inside, where + "/" + name);
      }
    } else if (object.unsynced.empty()) {
      write_file(where, object.bytes);
    } else {
      if (!written.contains(index)) {
        written[index] = bytes_after(object, random, each ? pick() : data);
      }
      write_file(where, written[index]);
    }
  };
  if (objects_.empty()) refuse("it does not begin with its folder");
  write(0, path);
}

}  // namespace power

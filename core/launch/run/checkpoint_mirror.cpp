#include "core/launch/run/checkpoint_mirror.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/crypto.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/job/checkpoint_manifest.h"
#include "core/job/checkpoint_summary.h"

namespace adaptdl::launch {
namespace {

constexpr size_t kPiece = 1u << 20;
constexpr Seconds kRetryFirst{1.0}, kRetryLongest{60.0};
constexpr int kAttempts = 4;         // to read before the run starts; to open a checkpoint
constexpr int64_t kDefaultKept = 3;  // as the setting checkpoints_kept
// A checkpoint that arrives has this name until it is whole: a temporary one to the replicas' store
// (runtime/checkpoint), too, which removes it if this process is killed.
constexpr const char* kArriving = ".partial-mirror";

uint64_t size_of(int fd, const std::string& what) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail_errno(errno, what + ": cannot stat it");
  return static_cast<uint64_t>(status.st_size);
}

std::string digest_of(int fd, uint64_t size, const std::string& what,
                      const Cancellation& cancelled) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(size, kPiece)));
  Sha256 digest;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    if (cancelled.cancelled()) throw Cancelled(what);
    piece.resize(static_cast<size_t>(std::min<uint64_t>(size - at, kPiece)));
    read_exactly_at(fd, piece, at, what);
    digest.add({reinterpret_cast<const char*>(piece.data()), piece.size()});
  }
  return to_hex(digest.finish());
}

// How many checkpoints the run keeps, which its program decides.
size_t kept_by(const CheckpointManifest& manifest) {
  const auto& settings = manifest.header.settings;
  if (!settings.is_object()) return kDefaultKept;
  const auto text = settings.find("checkpoints_kept");
  if (text == settings.end() || !text->is_string()) return kDefaultKept;
  const auto kept = try_parse<int64_t>(text->get<std::string>());
  return static_cast<size_t>(std::clamp<int64_t>(kept.value_or(kDefaultKept), 1, 1000));
}

// The newest checkpoint in the folder from which replicas can go on. One that is older than `best`
// is not read but for its manifest. One of a newer format counts: they refuse it with the reason.
std::optional<MirroredCheckpoint> newest_intact(const std::string& folder,
                                                const MirroredCheckpoint& best,
                                                const Cancellation& cancelled) {
  if (newest_checkpoint_step(folder) < 0) return std::nullopt;
  for (const std::string& path : checkpoints_at(folder)) {
    MirroredCheckpoint found;
    try {
      const CheckpointHeader header = read_checkpoint_manifest(path).header;
      found.step = header.step;
      found.fresh_at = std::max<int64_t>(fresh_at(header), 0);
      if (found.older_than(best) || inspect_checkpoint(path, &cancelled).damages.empty())
        return found;
    } catch (const Cancelled&) {
      throw;
    } catch (const NewerCheckpointFormat&) {
      found.step = found.fresh_at = INT64_MAX;
      return found;
    } catch (const Error&) {  // the manifest is damaged
    }
  }
  return std::nullopt;
}

void pause_for(const Cancellation& cancelled, Seconds pause, const std::string& what) {
  if (cancelled.wait_for(pause)) throw Cancelled(what);
}

// The result of `read`, which is tried again after failures that may pass.
template <typename Read>
auto patiently(const Cancellation& cancelled, Read read) {
  Seconds pause = kRetryFirst;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    try {
      return read();
    } catch (const S3Error& error) {
      if (!error.passing() || attempt == kAttempts) throw;
      pause_for(cancelled, pause, error.what());
    }
  }
}

}  // namespace

// A checkpoint whose files stay readable, also when the run removes it.
struct CheckpointMirror::Opened {
  MirroredCheckpoint checkpoint;  // files: of the manifest alone until the others are read
  size_t keep = 1;
  std::vector<Fd> files;  // as checkpoint.files
};

CheckpointMirror::CheckpointMirror(MirrorOptions options, std::string run, std::string folder)
    : options_(std::move(options)),
      run_(std::move(run)),
      folder_(std::move(folder)),
      bucket_(options_.access, options_.place.bucket, cancelled_),
      news_pipe_(O_NONBLOCK) {
  index_.run = run_;
}

CheckpointMirror::~CheckpointMirror() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.cancel();
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Nothing if there is none. Throws Error if it is another run's.
std::optional<MirrorIndex> CheckpointMirror::read_index() {
  const auto text = patiently(cancelled_, [&] { return bucket_.get(key(kMirrorIndex)); });
  if (!text) return std::nullopt;
  MirrorIndex index = parse_mirror_index(*text, place() + "/" + kMirrorIndex);
  if (index.run != run_) {
    fail("{}: holds the checkpoints of run {}; give run {} another --checkpoint-mirror", place(),
         index.run, run_);
  }
  return index;
}

std::optional<int64_t> CheckpointMirror::restore(const std::function<void(std::string)>& tell) {
  auto index = read_index();
  if (!index) return std::nullopt;
  index_ = *std::move(index);
  if (index_.checkpoints.empty()) return std::nullopt;
  const auto here = newest_intact(folder_, index_.checkpoints.front(), cancelled_);
  std::string problem;
  for (const MirroredCheckpoint& checkpoint : index_.checkpoints) {
    if (here && !here->older_than(checkpoint)) return std::nullopt;
    const std::string arriving = join_path(folder_, kArriving);
    remove_tree(arriving);
    make_directories(arriving, 0700);
    if (get(checkpoint, arriving, problem)) {
      put_in_place(arriving, checkpoint, tell);
      return checkpoint.step;
    }
    remove_tree(arriving);
    tell(fmt::format("the checkpoint of step {} in {} is not usable: {}", checkpoint.step, place(),
                     problem));
  }
  if (!problem.empty() && !here) {
    fail("{}: no checkpoint there is intact; --fresh trains from scratch", place());
  }
  return std::nullopt;
}

// Makes it the newest in the folder.
void CheckpointMirror::put_in_place(const std::string& arriving,
                                    const MirroredCheckpoint& checkpoint,
                                    const std::function<void(std::string)>& tell) {
  const auto move = [](const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(errno, to + ": cannot create it");
  };
  const std::string path = join_path(folder_, checkpoint_name(checkpoint.step));
  sync_directory(arriving);
  for (const std::string& other : checkpoints_at(folder_)) {
    const std::string name = file_name(other);
    if (name < file_name(path)) continue;
    const std::string aside = join_path(folder_, "not-used-" + name);
    remove_tree(aside);
    move(other, aside);
    tell(
        fmt::format("{} is damaged, or of an earlier training than the checkpoint of step {} in "
                    "{}; it is now {}",
                    other, checkpoint.step, place(), aside));
  }
  move(arriving, path);
  sync_directory(folder_);
}

// Whether all files have arrived as the index says; `problem`: why not.
bool CheckpointMirror::get(const MirroredCheckpoint& checkpoint, const std::string& folder,
                           std::string& problem) {
  for (const MirroredFile& file : checkpoint.files) {
    const std::string path = join_path(folder, file.name);
    Fd out;
    uint64_t bytes = 0;
    Sha256 digest;
    const bool there = patiently(cancelled_, [&] {
      out = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      bytes = 0;
      digest = Sha256();
      return bucket_.get(key(checkpoint.folder + "/" + file.name), [&](std::string_view piece) {
        bytes += piece.size();
        if (bytes > file.bytes) return;  // damaged; do not fill the disk with it
        digest.add(piece);
        write_all(out.get(), piece, path);
      });
    });
    if (!there) {
      problem = file.name + " is missing";
    } else if (bytes != file.bytes) {
      problem = fmt::format("{} has {} bytes, not {}", file.name, bytes, file.bytes);
    } else if (to_hex(digest.finish()) != file.sha256) {
      problem = fmt::format("the SHA-256 of {} differs: the object was damaged", file.name);
    } else {
      sync_and_close(std::move(out), path);
      continue;
    }
    return false;
  }
  return true;
}

void CheckpointMirror::clear() {
  auto index = read_index();
  if (!index) return;
  for (const MirroredCheckpoint& checkpoint : std::exchange(index->checkpoints, {})) {
    for (std::string& name : mirror_keys(checkpoint)) index->leftovers.push_back(std::move(name));
  }
  patiently(cancelled_, [&] { write_index(*index); });
  patiently(cancelled_, [&] { remove_leftovers(); });
}

void CheckpointMirror::start() {
  if (!index_.checkpoints.empty()) newest_in_store_ = index_.checkpoints.front().step;
  thread_ = std::thread([this] { send_all(); });
}

void CheckpointMirror::look() {
  {
    const std::lock_guard lock(mutex_);
    look_ = true;
  }
  woken_.notify_all();
}

void CheckpointMirror::finish() {
  {
    const std::lock_guard lock(mutex_);
    look_ = finishing_ = true;
  }
  woken_.notify_all();
}

bool CheckpointMirror::done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

std::vector<MirrorNews> CheckpointMirror::take_news() {
  std::array<char, 64> bytes;
  while (::read(news_pipe_.reader.get(), bytes.data(), bytes.size()) > 0) {
  }
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

int64_t CheckpointMirror::newest_in_store() {
  const std::lock_guard lock(mutex_);
  return newest_in_store_;
}

void CheckpointMirror::tell(MirrorNews news) {
  {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
  }
  [[maybe_unused]] const ssize_t n = ::write(news_pipe_.writer.get(), "", 1);
}

// The thread.
void CheckpointMirror::send_all() {
  Seconds pause = kRetryFirst;
  for (bool failed = false;;) {
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [&] { return cancelled_.cancelled() || (failed ? finishing_ : look_); };
      if (failed && !finishing_) {
        woken_.wait_for(lock, pause, wanted);
        pause = std::min(pause * 2, kRetryLongest);
      } else if (failed) {
        woken_.wait_for(lock, kRetryFirst, [&] { return cancelled_.cancelled(); });
      } else {
        woken_.wait(lock, wanted);
      }
      if (cancelled_.cancelled()) return;
      look_ = false;
      last = finishing_;
    }
    bool passing = true;
    const TimePoint begun = Monotonic::now();
    MirrorNews news;
    try {
      std::optional<Opened> newest = open_newest();
      failed = false;
      pause = kRetryFirst;
      if (newest) {
        failed = true;  // until it is sent
        news.step = newest->checkpoint.step;
        send(*newest);
        failed = false;
        for (const MirroredFile& file : newest->checkpoint.files) news.bytes += file.bytes;
      }
    } catch (const Cancelled&) {
      return;
    } catch (const std::exception& error) {
      failed = true;
      news.error = error.what();
      const auto* store = dynamic_cast<const S3Error*>(&error);
      passing = store != nullptr && store->passing();
    }
    news.seconds = seconds_since(begun);
    if (news.bytes > 0 || !news.error.empty()) tell(std::move(news));
    if (last && (!failed || !passing)) {
      {
        const std::lock_guard lock(mutex_);
        done_ = true;
      }
      [[maybe_unused]] const ssize_t n = ::write(news_pipe_.writer.get(), "", 1);
      return;
    }
  }
}

// Nothing if the store has the newest one, or there is none.
std::optional<CheckpointMirror::Opened> CheckpointMirror::open_newest() const {
  // The run may remove or replace the checkpoint meanwhile; then there is a newer one.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int64_t step = newest_checkpoint_step(folder_);
    if (step < 0) return std::nullopt;
    const std::string path = join_path(folder_, checkpoint_name(step));
    const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder && errno == ENOENT) continue;
    if (!folder) fail_errno(errno, path + ": cannot open it");
    Opened opened;
    opened.checkpoint.step = step;
    const auto open_one = [&](const std::string& name) {
      opened.files.emplace_back(::openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
      if (!opened.files.back() && errno != ENOENT) {
        fail_errno(errno, join_path(path, name) + ": cannot open it");
      }
      opened.checkpoint.files.push_back({.name = name, .bytes = 0, .sha256 = ""});
      return static_cast<bool>(opened.files.back());
    };
    if (!open_one(kCheckpointManifest)) continue;
    MirroredFile& first = opened.checkpoint.files.front();
    const int fd = opened.files.front().get();
    first.bytes = size_of(fd, path);
    if (first.bytes > kMaxManifestBytes) fail("{}: its manifest is too large", path);
    std::string text(static_cast<size_t>(first.bytes), '\0');
    read_exactly_at(fd, std::as_writable_bytes(std::span(text)), 0, path);
    first.sha256 = to_hex(sha256(bytes_of(text)));
    opened.checkpoint.folder = mirror_folder(step, first.sha256);
    for (const MirroredCheckpoint& sent : index_.checkpoints) {
      if (sent.folder == opened.checkpoint.folder) return std::nullopt;
    }
    const CheckpointManifest manifest = parse_checkpoint_manifest(text, path);
    opened.keep = kept_by(manifest);
    opened.checkpoint.fresh_at = std::max<int64_t>(fresh_at(manifest.header), 0);
    bool whole = true;
    for (const CheckpointFile& file : manifest.files) whole = whole && open_one(file.name);
    if (whole) return opened;
  }
  fail("{}: the newest checkpoint there is not complete", folder_);
}

void CheckpointMirror::send(Opened& opened) {
  MirroredCheckpoint& checkpoint = opened.checkpoint;
  for (size_t i = 1; i < checkpoint.files.size(); ++i) {
    MirroredFile& file = checkpoint.files[i];
    file.bytes = size_of(opened.files[i].get(), file.name);
    file.sha256 = digest_of(opened.files[i].get(), file.bytes, file.name, cancelled_);
  }
  write_index(before_upload(index_, checkpoint));
  for (size_t i = 0; i < checkpoint.files.size(); ++i) {
    const MirroredFile& file = checkpoint.files[i];
    bucket_.put_file(key(checkpoint.folder + "/" + file.name), opened.files[i].get(), file.bytes,
                     file.sha256);
  }
  write_index(after_upload(index_, checkpoint, opened.keep));
  {
    const std::lock_guard lock(mutex_);
    newest_in_store_ = checkpoint.step;
  }
  remove_leftovers();
}

void CheckpointMirror::write_index(const MirrorIndex& index) {
  bucket_.put(key(kMirrorIndex), mirror_index_text(index));
  index_ = index;
}

// The next index no longer lists those that are gone.
void CheckpointMirror::remove_leftovers() {
  while (!index_.leftovers.empty()) {
    bucket_.remove(key(index_.leftovers.back()));
    index_.leftovers.pop_back();
  }
}

}  // namespace adaptdl::launch

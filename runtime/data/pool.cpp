#include "runtime/data/pool.h"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace adaptdl::data {
namespace {

constexpr size_t kAlignment = 64;

void* allocate_aligned(size_t bytes) {
  void* data = std::aligned_alloc(kAlignment, bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

std::shared_ptr<Pool> Pool::create(size_t idle_blocks, Allocate allocate, Release release) {
  if (!allocate) {
    allocate = allocate_aligned;
    release = [](void* data) { std::free(data); };
  }
  return std::shared_ptr<Pool>(new Pool(idle_blocks, std::move(allocate), std::move(release)));
}

Pool::Pool(size_t idle_blocks, Allocate allocate, Release release)
    : idle_blocks_(idle_blocks), allocate_(std::move(allocate)), release_(std::move(release)) {
  idle_.reserve(idle_blocks + 1);  // so that give_back() never allocates
}

Pool::~Pool() {
  for (const Block& block : idle_) release_(block.data);
}

std::shared_ptr<std::byte> Pool::take(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
  const size_t wanted = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Block block{nullptr, 0};
  {
    std::lock_guard lock(mutex_);
    // The most recently used block is most likely in the cache; skip blocks that are far too large.
    for (size_t i = idle_.size(); i-- > 0;) {
      if (idle_[i].capacity < wanted || idle_[i].capacity / 2 > wanted) continue;
      block = idle_[i];
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  if (block.data == nullptr) block = {allocate_(wanted), wanted};
  return {static_cast<std::byte*>(block.data),
          [pool = shared_from_this(), block](std::byte*) { pool->give_back(block); }};
}

void Pool::give_back(Block block) {
  {
    std::lock_guard lock(mutex_);
    idle_.push_back(block);
    if (idle_.size() <= idle_blocks_) return;
    block = idle_.front();
    idle_.erase(idle_.begin());
  }
  release_(block.data);
}

}  // namespace adaptdl::data

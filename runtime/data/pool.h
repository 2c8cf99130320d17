#pragma once

// Reuses the memory of batches: fresh pages cost as much as reading the data.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace adaptdl::data {

// Thread-safe. Blocks keep the pool alive, so they may outlive its creator.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  using Allocate = std::function<void*(size_t)>;
  using Release = std::function<void(void*)>;

  // At most `idle_blocks` unused blocks are kept. The functions are those of LoaderOptions.
  static std::shared_ptr<Pool> create(size_t idle_blocks, Allocate allocate, Release release);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // At least `bytes`, aligned to 64, not initialized; null for 0 bytes. Throws std::bad_alloc.
  std::shared_ptr<std::byte> take(size_t bytes);

 private:
  struct Block {
    void* data;
    size_t capacity;
  };

  Pool(size_t idle_blocks, Allocate allocate, Release release);
  void give_back(Block block);

  size_t idle_blocks_;
  Allocate allocate_;
  Release release_;
  std::mutex mutex_;
  std::vector<Block> idle_;  // least recently used first
};

}  // namespace adaptdl::data

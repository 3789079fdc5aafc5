#include "schedule/chunk_map.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tutti/params.h"

namespace tutti {

Range ChunkMap::Cutter::At(int index) const {
  return {index * small + std::min<int64_t>(index, num_large),
          small + (index < num_large ? 1 : 0)};
}

ChunkMap::Cutter ChunkMap::MakeCutter(int64_t num_elements, int num_parts) {
  return {num_elements / num_parts, num_elements % num_parts};
}

Range Cut(int64_t num_elements, int num_parts, int index) {
  return ChunkMap::MakeCutter(num_elements, num_parts).At(index);
}

ChunkMap::ChunkMap(const CollectiveParams& params, int num_chunks)
    : group_size_(params.group->size()),
      rank_(params.default_rank),
      num_chunks_(num_chunks) {
  if (HasRankBlocks(params.instance->type)) {
    SetBlocks(params);
  } else {
    SetWhole(params);
  }
}

void ChunkMap::SetWhole(const CollectiveParams& params) {
  const CollInstanceParams& instance = *params.instance;
  if (instance.type == CollectiveType::kBarrier) {
    input_.num_chunks = 1;
    input_.pieces = MakeCutter(1, 1);
    pieces_per_block_ = 1;
    return;
  }
  const Buffer whole{
      .num_chunks = num_chunks_,
      .pieces = MakeCutter(instance.shape.num_elements(), num_chunks_)};
  pieces_per_block_ = num_chunks_;
  if (HasInput(instance.type, rank_, instance.root)) input_ = whole;
  if (HasOutput(instance.type, rank_, instance.root)) data_ = whole;
}

void ChunkMap::SetBlocks(const CollectiveParams& params) {
  const CollInstanceParams& instance = *params.instance;
  pieces_per_block_ = num_chunks_ / group_size_;
  const int64_t row = RowElements(instance.shape);
  const auto begins = [&](auto rows_of_block) {
    std::vector<int64_t> result;
    if (instance.rows.empty()) return result;
    result.push_back(0);
    for (int block = 0; block < group_size_; ++block) {
      result.push_back(result.back() + rows_of_block(block) * row);
    }
    return result;
  };
  // A block of an exchange goes from one rank to another; other blocks belong
  // to one rank.
  const bool exchanges = ExchangesBlocks(instance.type);
  const auto sent = begins([&](int block) {
    return BlockRows(instance, group_size_, exchanges ? rank_ : block, block);
  });
  const auto received = begins([&](int block) {
    return BlockRows(instance, group_size_, block, exchanges ? rank_ : block);
  });
  const int64_t block = BlockRows(instance, group_size_, rank_, rank_) * row;
  if (HasInput(instance.type, rank_, instance.root)) {
    input_ = MakeBlocks(sent, InputIsOwnBlock(instance.type), block);
  }
  if (HasOutput(instance.type, rank_, instance.root)) {
    data_ = MakeBlocks(received, OutputIsOwnBlock(instance.type), block);
  }
}

ChunkMap::Buffer ChunkMap::MakeBlocks(std::vector<int64_t> begins,
                                      bool only_own,
                                      int64_t block_elements) const {
  Buffer buffer;
  buffer.first_chunk = only_own ? rank_ * pieces_per_block_ : 0;
  buffer.num_chunks = only_own ? pieces_per_block_ : num_chunks_;
  buffer.pieces = MakeCutter(block_elements, pieces_per_block_);
  buffer.block_elements = block_elements;
  buffer.block_begins = std::move(begins);
  return buffer;
}

Range ChunkMap::RangeIn(const Buffer& buffer, int chunk) const {
  const int own = chunk - buffer.first_chunk;  // 0: the buffer's first.
  if (pieces_per_block_ == num_chunks_) return buffer.pieces.At(own);
  const int block = own / pieces_per_block_;
  const int piece = own % pieces_per_block_;
  if (buffer.block_begins.empty()) {
    const Range range = buffer.pieces.At(piece);
    return {block * buffer.block_elements + range.begin, range.size};
  }
  // An own block begins at 0, but its size depends on its rank.
  const auto begins = buffer.block_begins.begin() + chunk / pieces_per_block_;
  const int64_t begin = buffer.first_chunk == 0 ? begins[0] : 0;
  const Range range = Cut(begins[1] - begins[0], pieces_per_block_, piece);
  return {begin + range.begin, range.size};
}

Range ChunkMap::RangeOf(const Slot& slot) const {
  const bool is_scratch = slot.space == Space::kScratch;
  const bool is_like_input =
      is_scratch ? input_.Has(slot) : slot.space == Space::kInput;
  const Buffer& buffer = is_like_input ? input_ : data_;
  Range range = RangeIn(buffer, slot.chunk);
  if (slot.num_chunks > 1) {
    const Range last = RangeIn(buffer, slot.chunk + slot.num_chunks - 1);
    range.size = last.begin + last.size - range.begin;
  }
  if (is_scratch) range.begin = 0;
  return range;
}

}  // namespace tutti

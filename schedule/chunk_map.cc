#include "schedule/chunk_map.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/collective_shapes.h"

namespace tutti {

Range Cut(int64_t num_elements, int num_parts, int index) {
  const int64_t small = num_elements / num_parts;
  const int64_t num_large = num_elements % num_parts;
  return {index * small + std::min<int64_t>(index, num_large),
          small + (index < num_large ? 1 : 0)};
}

ChunkMap::ChunkMap(const CollectiveParams& params)
    : group_size_(params.group->size()), rank_(params.default_rank) {
  const CollInstanceParams& instance = *params.instance;
  const bool has_input = HasInput(instance.type, rank_, instance.root);
  const bool has_output = HasOutput(instance.type, rank_, instance.root);
  const auto cut = [](bool has, Cutting cutting) {
    return has ? cutting : Cutting::kNone;
  };
  switch (instance.type) {
    case CollectiveType::kAllReduce:
    case CollectiveType::kBroadcast:
    case CollectiveType::kReduce:
    case CollectiveType::kPermute:
      input_.cutting = cut(has_input, Cutting::kWhole);
      data_.cutting = cut(has_output, Cutting::kWhole);
      break;
    case CollectiveType::kAllGather:
    case CollectiveType::kGather:
      input_.cutting = cut(has_input, Cutting::kOwnBlock);
      data_.cutting = cut(has_output, Cutting::kAllBlocks);
      break;
    case CollectiveType::kReduceScatter:
    case CollectiveType::kScatter:
      input_.cutting = cut(has_input, Cutting::kAllBlocks);
      data_.cutting = cut(has_output, Cutting::kOwnBlock);
      break;
    case CollectiveType::kAllToAll:
      input_.cutting = Cutting::kAllBlocks;
      data_.cutting = Cutting::kAllBlocks;
      break;
    case CollectiveType::kBarrier:
      input_.cutting = Cutting::kToken;
      return;
  }
  input_.num_elements = params.input_shape.num_elements();
  data_.num_elements = params.output_shape.num_elements();
  SetBlocks(params);
}

void ChunkMap::SetBlocks(const CollectiveParams& params) {
  const CollInstanceParams& instance = *params.instance;
  has_blocks_ = instance.type != CollectiveType::kAllReduce &&
                instance.type != CollectiveType::kBroadcast &&
                instance.type != CollectiveType::kReduce &&
                instance.type != CollectiveType::kPermute;
  if (!has_blocks_) return;
  const int64_t row = RowElements(instance.shape);
  if (instance.rows.empty()) {
    const int64_t block = BlockRows(instance, group_size_, rank_, rank_) * row;
    input_.block_elements = data_.block_elements = block;
    return;
  }
  const auto begins = [&](auto rows_of_block) {
    std::vector<int64_t> result = {0};
    for (int block = 0; block < group_size_; ++block) {
      result.push_back(result.back() + rows_of_block(block) * row);
    }
    return result;
  };
  if (instance.type != CollectiveType::kAllToAll) {
    input_.block_begins = data_.block_begins = begins([&](int block) {
      return BlockRows(instance, group_size_, block, block);
    });
    return;
  }
  input_.block_begins = begins(
      [&](int to) { return BlockRows(instance, group_size_, rank_, to); });
  data_.block_begins = begins(
      [&](int from) { return BlockRows(instance, group_size_, from, rank_); });
}

bool ChunkMap::Allows(int num_chunks) const {
  return num_chunks > 0 && (!has_blocks_ || num_chunks % group_size_ == 0);
}

bool ChunkMap::HasChunk(const Buffer& buffer, int chunk, int num_chunks) const {
  if (chunk < 0 || chunk >= num_chunks) return false;
  switch (buffer.cutting) {
    case Cutting::kNone:
      return false;
    case Cutting::kOwnBlock:
      return chunk / (num_chunks / group_size_) == rank_;
    default:
      return true;
  }
}

Range ChunkMap::RangeIn(const Buffer& buffer, int chunk, int num_chunks) const {
  if (buffer.cutting == Cutting::kToken) return {0, 1};
  if (buffer.cutting == Cutting::kWhole) {
    return Cut(buffer.num_elements, num_chunks, chunk);
  }
  const int pieces = num_chunks / group_size_;
  const int block = pieces == 1 ? chunk : chunk / pieces;
  int64_t begin = block * buffer.block_elements;
  int64_t size = buffer.block_elements;
  if (!buffer.block_begins.empty()) {
    begin = buffer.block_begins[block];
    size = buffer.block_begins[block + 1] - begin;
  }
  if (buffer.cutting == Cutting::kOwnBlock) begin = 0;
  if (pieces == 1) return {begin, size};
  const Range piece = Cut(size, pieces, chunk % pieces);
  return {begin + piece.begin, piece.size};
}

const ChunkMap::Buffer& ChunkMap::BufferOf(const Slot& slot,
                                           int num_chunks) const {
  if (slot.space == Space::kData) return data_;
  if (slot.space == Space::kInput) return input_;
  return HasChunk(input_, slot.chunk, num_chunks) ? input_ : data_;
}

bool ChunkMap::Has(const Slot& slot, int num_chunks) const {
  if (slot.space == Space::kScratch && slot.bank < 0) return false;
  return HasChunk(BufferOf(slot, num_chunks), slot.chunk, num_chunks);
}

Range ChunkMap::RangeOf(const Slot& slot, int num_chunks) const {
  Range range = RangeIn(BufferOf(slot, num_chunks), slot.chunk, num_chunks);
  if (slot.space == Space::kScratch) range.begin = 0;
  return range;
}

}  // namespace tutti

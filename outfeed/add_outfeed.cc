#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "outfeed/memory_channel.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using NodeId = HostCallBuilder::NodeId;
using Operands = absl::Span<const absl::Span<const std::byte>>;

// State shared by the nodes of an item.
struct Item {
  std::shared_ptr<OutfeedChannel> channel;
  std::shared_ptr<const OutfeedRegistry> registry;  // Owns the consumer.
  const OutfeedConsumer* consumer = nullptr;

  void SendHeader(StatusCallback done) const {
    Tensor header = consumer->header;
    channel->TransferToOutfeed(absl::MakeSpan(&header, 1), std::move(done));
  }

  // REQUIRES: `operands` are the arrays that are not empty.
  void SendArrays(Operands operands, StatusCallback done) const {
    std::vector<Tensor> copies;
    size_t next = 0;
    for (const ArraySpec& spec : consumer->arrays) {
      absl::StatusOr<Tensor> copy = Tensor::Allocate(spec.dtype, spec.shape);
      if (!copy.ok()) return std::move(done)(copy.status());
      if (copy->size_bytes() > 0) {
        std::memcpy(copy->mutable_data(), operands[next++].data(),
                    copy->size_bytes());
      }
      copies.push_back(*std::move(copy));
    }
    channel->TransferToOutfeed(absl::MakeSpan(copies), std::move(done));
  }
};

// Errors: INVALID_ARGUMENT if a region and its array differ in size.
absl::Status CheckRegions(uint32_t consumer_id,
                          absl::Span<const OutfeedArray> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArraySpec& spec = arrays[i].spec;
    ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(spec.dtype, spec.shape));
    if (bytes == arrays[i].region.num_bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "array ", i, " of consumer id ", consumer_id, " is ", spec.ToString(),
        ", ", bytes, " bytes; its region has ", arrays[i].region.num_bytes));
  }
  return absl::OkStatus();
}

absl::Status Register(OutfeedRegistry& registry, uint32_t consumer_id,
                      absl::Span<const OutfeedArray> arrays) {
  std::vector<ArraySpec> specs;
  for (const OutfeedArray& array : arrays) specs.push_back(array.spec);
  return registry.Register(consumer_id, std::move(specs));
}

std::vector<Region> RegionsOf(absl::Span<const OutfeedArray> arrays) {
  std::vector<Region> regions;
  for (const OutfeedArray& array : arrays) {
    if (array.region.num_bytes > 0) regions.push_back(array.region);
  }
  return regions;
}

}  // namespace

absl::StatusOr<NodeId> AddOutfeed(const OutfeedProgram& program,
                                  absl::Span<const NodeId> token,
                                  uint32_t consumer_id,
                                  absl::Span<const OutfeedArray> arrays) {
  ASSIGN_OR_RETURN(auto channel, OutfeedChannelOf(program.device));
  RETURN_IF_ERROR(CheckRegions(consumer_id, arrays));
  RETURN_IF_ERROR(Register(*program.registry, consumer_id, arrays));
  ASSIGN_OR_RETURN(const auto consumer, program.registry->Find(consumer_id));
  const auto item = std::make_shared<const Item>(
      Item{std::move(channel), program.registry, consumer});

  const NodeId header =
      program.builder.AddHostCall({.call =
                                       [item](Operands, StatusCallback done) {
                                         item->SendHeader(std::move(done));
                                       }},
                                  token);
  if (arrays.empty()) return header;
  return program.builder.AddHostCall(
      {.reads = RegionsOf(arrays),
       .call =
           [item](Operands operands, StatusCallback done) {
             item->SendArrays(operands, std::move(done));
           }},
      {header});
}

}  // namespace tutti

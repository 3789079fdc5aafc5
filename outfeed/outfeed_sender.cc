#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "outfeed/memory_channel.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"

namespace tutti {

absl::StatusOr<OutfeedSender> OutfeedSender::Create(
    Device& device, std::shared_ptr<const OutfeedRegistry> registry) {
  ASSIGN_OR_RETURN(auto channel, OutfeedChannelOf(device));
  return OutfeedSender(std::move(channel), std::move(registry));
}

void OutfeedSender::Send(uint32_t consumer_id, absl::Span<const Tensor> arrays,
                         StatusCallback done) const {
  const auto consumer = Check(consumer_id, arrays);
  if (!consumer.ok()) {
    if (done != nullptr) std::move(done)(consumer.status());
    return;
  }
  absl::InlinedVector<Tensor, 4> item = {(*consumer)->header};
  item.insert(item.end(), arrays.begin(), arrays.end());
  channel_->TransferToOutfeed(absl::MakeSpan(item), std::move(done));
}

absl::Status OutfeedSender::SendAndWait(uint32_t consumer_id,
                                        absl::Span<const Tensor> arrays) const {
  return Await(
      [&](StatusCallback done) { Send(consumer_id, arrays, std::move(done)); });
}

absl::Status OutfeedSender::AddItem(uint32_t consumer_id,
                                    absl::Span<const Tensor> arrays,
                                    std::vector<Tensor>& batch) const {
  ASSIGN_OR_RETURN(const auto consumer, Check(consumer_id, arrays));
  batch.push_back(consumer->header);
  batch.insert(batch.end(), arrays.begin(), arrays.end());
  return absl::OkStatus();
}

absl::StatusOr<const OutfeedConsumer*> OutfeedSender::Check(
    uint32_t consumer_id, absl::Span<const Tensor> arrays) const {
  ASSIGN_OR_RETURN(const auto consumer, registry_->Find(consumer_id));
  if (arrays.size() != consumer->arrays.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an item of consumer id ", consumer_id, " has ",
        consumer->arrays.size(), " arrays, found ", arrays.size()));
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    RETURN_IF_ERROR(CheckArray(*consumer, i, arrays[i]));
  }
  return consumer;
}

}  // namespace tutti

#include "schedule/between_tasks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/collective_type.h"
#include "framework/dtype.h"
#include "framework/implementation_traits.h"
#include "framework/registry.h"
#include "framework/tensor_shape.h"
#include "schedule/first_members.h"
#include "schedule/schedule.h"

namespace tutti {
namespace {

absl::Status CheckReducesBetweenTasks(const std::string& name,
                                      const ImplementationTraits& traits) {
  const bool reduces =
      absl::c_linear_search(traits.collectives, CollectiveType::kAllReduce);
  if (reduces && traits.is_made_of_steps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name,
                   " is no schedule that all-reduces, as the stage "
                   "between processes has to be"));
}

}  // namespace

Tensor PartOf(const Tensor& tensor, Range elements) {
  return *tensor.Reshaped(TensorShape::Vector(tensor.num_elements()))
              ->Slice(elements.begin, elements.begin + elements.size);
}

absl::StatusOr<std::unique_ptr<const ReductionBetweenTasks>>
ReductionBetweenTasks::Create(const CollectiveParams& whole,
                              const std::string& implementation,
                              int64_t chunk_bytes) {
  std::unique_ptr<ReductionBetweenTasks> made(new ReductionBetweenTasks());
  const int64_t num_elements = whole.instance->shape.num_elements();
  const auto element_bytes =
      static_cast<int64_t>(SizeOf(whole.instance->dtype));
  const int64_t most = std::max<int64_t>(chunk_bytes / element_bytes, 1);
  made->num_elements_ = num_elements;
  made->chunk_elements_ = std::clamp<int64_t>(num_elements, 1, most);
  auto reduction = MakeReduction(whole, implementation, made->chunk_elements_);
  if (!reduction.ok()) return reduction.status();
  made->whole_ = *std::move(reduction);
  const int64_t num_rest = num_elements % made->chunk_elements_;
  if (num_rest > 0) {
    reduction = MakeReduction(whole, implementation, num_rest);
    if (!reduction.ok()) return reduction.status();
    made->rest_ = *std::move(reduction);
  }
  return made;
}

absl::StatusOr<ReductionBetweenTasks::Reduction>
ReductionBetweenTasks::MakeReduction(const CollectiveParams& whole,
                                     const std::string& name,
                                     int64_t num_elements) {
  const auto factory = CollectiveRegistry::Global().Find(name);
  if (!factory.ok()) return factory.status();
  absl::Status status = CheckReducesBetweenTasks(name, (*factory)->traits());
  if (!status.ok()) return status;
  Reduction reduction = {.params = AmongFirstMembers(whole, num_elements),
                         .implementation = (*factory)->Create()};
  auto instance =
      std::make_shared<CollInstanceParams>(*reduction.params.instance);
  instance->impl_details = {.implementation = name};
  status = reduction.implementation->InitializeCollectiveParams(
      *reduction.params.group, instance.get());
  if (!status.ok()) return status;
  reduction.params.instance = std::move(instance);
  return reduction;
}

Range ReductionBetweenTasks::ChunkAt(int64_t index) const {
  const int64_t begin = index * chunk_elements_;
  return {begin, std::min(chunk_elements_, num_elements_ - begin)};
}

absl::Status ReductionBetweenTasks::Plan(const CollectiveContext& member,
                                         const Tensor& input,
                                         const Tensor& output) const {
  for (const Reduction* reduction : {&whole_, &rest_}) {
    if (reduction->implementation == nullptr) continue;
    CollectiveContext context;
    context.params = &reduction->params;
    context.executor = member.executor;
    context.device = member.device;
    context.input = input;
    context.output = output;
    absl::Status status =
        reduction->implementation->InitializeCollectiveContext(&context);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void ReductionBetweenTasks::Run(int64_t index, CollectiveContext& context,
                                StatusCallback done) const {
  const Reduction& reduction =
      ChunkAt(index).size == chunk_elements_ ? whole_ : rest_;
  context.params = &reduction.params;
  // The others may be a chunk ahead, and never two: what ends a chunk has come
  // from all of them. So a transport that is told late that a transfer is over
  // never finds its key used again.
  context.first_tag = index % 2 == 0 ? 0 : kNumTags;
  absl::Status status =
      reduction.implementation->InitializeCollectiveContext(&context);
  if (!status.ok()) return std::move(done)(std::move(status));
  reduction.implementation->Run(context, std::move(done));
}

}  // namespace tutti

// Tests which implementation a group of GPUs chooses.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_choice_test {

using ::testing::Not;
using ::testing::StartsWith;

std::string Chosen(CollectiveType type, const GroupLayout& layout,
                   int64_t bytes, DType dtype = DType::kFloat32,
                   std::string implementation = "") {
  const auto selection =
      SelectImplementation(CollectiveRegistry::Global(),
                           {.type = type,
                            .layout = layout,
                            .device_type = "GPU",
                            .bytes = bytes,
                            .one_process = layout.num_tasks() == 1,
                            .implementation = std::move(implementation),
                            .dtype = dtype});
  return selection.ok() ? selection->name : selection.status().ToString();
}

bool HasNccl(CollectiveType type) {
  return type != CollectiveType::kBarrier && type != CollectiveType::kScatter;
}

bool HasLocal(CollectiveType type) {
  return type == CollectiveType::kAllReduce ||
         type == CollectiveType::kReduce ||
         type == CollectiveType::kBroadcast ||
         type == CollectiveType::kAllGather || type == CollectiveType::kGather;
}

TEST(NcclChoiceTest, SeveralProcessesUseNcclOnlyWhenNamed) {
  for (const CollectiveType type : kAllCollectiveTypes) {
    for (const int64_t bytes : {0, 4, 1 << 10, 1 << 20, 1 << 30}) {
      for (const int num_tasks : {2, 3, 16}) {
        for (const int gpus_per_task : {1, 2, 8}) {
          EXPECT_THAT(
              Chosen(type, GroupLayout::Uniform(num_tasks, gpus_per_task),
                     bytes),
              Not(StartsWith("Nccl")))
              << Name(type) << " of " << bytes << " bytes, " << num_tasks << "x"
              << gpus_per_task;
        }
      }
    }
  }
  EXPECT_EQ(Chosen(CollectiveType::kAllReduce, GroupLayout::Uniform(2, 2), 4,
                   DType::kFloat32, "NcclReduce"),
            "NcclReduce");
}

TEST(NcclChoiceTest, OneProcessUsesNcclWhereOneGpuCannotDoTheWorkOfAll) {
  for (const CollectiveType type : kAllCollectiveTypes) {
    if (!HasNccl(type)) continue;
    for (const int64_t bytes : {0, 4, 1 << 10, 1 << 20, 1 << 30}) {
      for (const int num_gpus : {2, 3, 8}) {
        EXPECT_THAT(Chosen(type, GroupLayout::Uniform(1, num_gpus), bytes),
                    StartsWith(HasLocal(type) ? "GpuLocal" : "Nccl"))
            << Name(type) << " of " << bytes << " bytes, " << num_gpus;
      }
    }
  }
}

TEST(NcclChoiceTest, IntegersThatNcclLacksAreReducedWithoutItAndMovedWithIt) {
  const GroupLayout layout = GroupLayout::Uniform(1, 2);
  for (const CollectiveType type : kAllCollectiveTypes) {
    if (!HasNccl(type)) continue;
    const std::string chosen = Chosen(type, layout, 1 << 20, DType::kInt16);
    EXPECT_EQ(absl::StartsWith(chosen, "Nccl"),
              !Reduces(type) && !HasLocal(type))
        << Name(type) << ": " << chosen;
  }
}

}  // namespace nccl_choice_test
}  // namespace tutti

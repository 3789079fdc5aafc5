#include "tools/commands/info.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/transport_registry.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/named_only.h"

namespace tutti {
namespace info_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class InfoTest : public ::testing::Test {
 protected:
  InfoTest() {
    EXPECT_THAT(registry_.Register(
                    "Rings", std::make_shared<NamedOnly>(ImplementationTraits{
                                 .summary = "round and round",
                                 .collectives = {CollectiveType::kAllReduce,
                                                 CollectiveType::kReduce},
                                 .device_types = {"CPU"},
                                 .delegate = "Library",
                                 .rank_list = RankListUse::kOwners,
                                 .supports_uneven = true})),
                IsOk());
  }

  CollectiveRegistry registry_;
};

TEST_F(InfoTest, KnowsWhatItWasBuiltWith) {
  const BuildInfo build = ThisBuild();
  EXPECT_EQ(build.version, "0.1.0");
  EXPECT_THAT(build.compiler, Not(IsEmpty()));
  EXPECT_THAT(build.simd, Not(IsEmpty()));
  EXPECT_GT(build.num_processors, 0);
  EXPECT_GT(build.memory_bytes, 0);
}

TEST_F(InfoTest, TheTextNamesEveryAlgorithmWithItsTraits) {
  const std::string text = FormatInfo({.version = "1.2.3",
                                       .compiler = "Some 4",
                                       .optimized = true,
                                       .simd = {"AVX2", "SSE4"},
                                       .num_processors = 2,
                                       .missing_extensions = {"MPI"},
                                       .gpus = {.cuda = "13.0 in /cuda",
                                                .nccl = "2.1 in /nccl",
                                                .why_no_nccl = "not here",
                                                .why_none = "no driver"}},
                                      registry_);
  EXPECT_THAT(text, HasSubstr("tutti 1.2.3\n"));
  EXPECT_THAT(text, HasSubstr("compiler      Some 4\n"));
  EXPECT_THAT(text, HasSubstr("SIMD          AVX2, SSE4\n"));
  EXPECT_THAT(text, HasSubstr("sanitizer     none\n"));
  EXPECT_THAT(text, HasSubstr("MPI           not built in\n"));
  EXPECT_THAT(text,
              HasSubstr("GPUs          none: no driver; CUDA: 13.0 in /cuda; "
                        "NCCL: 2.1 in /nccl; its library: not here\n"));
  EXPECT_THAT(text, HasSubstr("\nRings  round and round\n"));
  EXPECT_THAT(text, HasSubstr("\nRings  all_reduce,reduce  CPU      Library "));
}

TEST_F(InfoTest, GpusAreCountedAndNamed) {
  const BuildInfo build = {
      .gpus = {.nccl_version = "2.1.3", .names = {"Some GPU", "Other GPU"}}};
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("GPUs          2: Some GPU, Other GPU; CUDA: "));
  const auto json = InfoAsJson(build, registry_);
  EXPECT_EQ(json["gpus"].dump(),
            R"({"names":["Some GPU","Other GPU"],"why_none":null,"cuda":"",)"
            R"("nccl":"","nccl_version":"2.1.3","why_no_nccl":null,)"
            R"("why_nccl_within_process":null})");
}

TEST_F(InfoTest, SaysWhereNcclServesOneProcessAlone) {
  const BuildInfo build = {.gpus = {.nccl_version = "2.1.3",
                                    .why_nccl_within_process = "it is old"}};
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("its library: 2.1.3, for groups of one process alone: "
                        "it is old\n"));
  EXPECT_EQ(InfoAsJson(build, registry_)["gpus"]["why_nccl_within_process"],
            "it is old");
}

TEST_F(InfoTest, SaysWhetherMpiTakesMemoryOfGpus) {
  BuildInfo build = {.extensions = {"gRPC", "MPI"}};
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("gRPC          built in\n"
                        "MPI           built in, not CUDA-aware\n"));
  EXPECT_EQ(InfoAsJson(build, registry_)["build"]["cuda_aware_mpi"], false);
  build.has_cuda_aware_mpi = true;
  EXPECT_THAT(FormatInfo(build, registry_),
              HasSubstr("MPI           built in, CUDA-aware\n"));
  EXPECT_EQ(InfoAsJson(build, registry_)["build"]["cuda_aware_mpi"], true);
}

TEST_F(InfoTest, CudaAndNcclAreBuiltInOrMissing) {
  const BuildInfo build = ThisBuild();
  EXPECT_THAT(build.gpus.has_cuda ? build.extensions : build.missing_extensions,
              Contains("CUDA"));
  EXPECT_THAT(build.gpus.has_nccl ? build.extensions : build.missing_extensions,
              Contains("NCCL"));
}

TEST_F(InfoTest, ListsWhatCannotRunHereWithTheReason) {
  const BuildInfo build = {.gpus = {.why_none = "no driver"}};
  EXPECT_THAT(FormatInfo(build, registry_), Not(HasSubstr("not here")));
  EXPECT_THAT(registry_.Register(
                  "Kernels", std::make_shared<NamedOnly>(ImplementationTraits{
                                 .collectives = {CollectiveType::kReduce},
                                 .device_types = {"GPU"},
                                 .device_needs = {.library = "NCCL"}})),
              IsOk());
  EXPECT_THAT(FormatInfo(build, registry_),
              AllOf(ContainsRegex("\nKernels +reduce +GPU +NCCL "),
                    EndsWith("\nnot here  reason\n"
                             "Kernels   needs a GPU: no driver\n")));
  EXPECT_EQ(InfoAsJson(build, registry_)["algorithms"][0]["why_not_here"],
            "needs a GPU: no driver");
}

TEST_F(InfoTest, ListsWhatTheBackendsOfTheBuildBring) {
  const BuildInfo build = ThisBuild();
  const CollectiveRegistry& registry = CollectiveRegistry::Global();
  EXPECT_EQ(registry.Find("GpuLocalReduce").ok(), build.gpus.has_cuda);
  EXPECT_EQ(registry.Find("NcclReduce").ok(), build.gpus.has_nccl);
  EXPECT_EQ(registry.Find("MpiReduce").ok(),
            TransportRegistry::Global().Find("MPI").ok());
}

TEST_F(InfoTest, TheJsonHasTheSame) {
  const auto json = InfoAsJson(ThisBuild(), registry_);
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["device_types"].dump(), R"(["CPU"])");
  ASSERT_EQ(json["algorithms"].size(), 1u);
  EXPECT_EQ(json["algorithms"][0].dump(),
            R"({"name":"Rings","summary":"round and round",)"
            R"("collectives":["all_reduce","reduce"],"device_types":["CPU"],)"
            R"("is_schedule":false,"chosen_by_cost":false,)"
            R"("needs_one_process":false,)"
            R"("preserves_rank_order":false,"supports_subdivisions":false,)"
            R"("supports_uneven":true,"shares_output":false,)"
            R"("takes_segments":false,)"
            R"("rank_list":"owners","delegate":"Library",)"
            R"("delegates_between_processes":false,)"
            R"("determinism":"fixed layout","why_not_here":null})");
}

}  // namespace info_test
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "prefill/producer.h"

namespace isthmus {

Identity producer_identity(const ModelConfig& config, const ProducerFacts& facts) {
  Json fields;
  fields["kind"] = "isthmus-prefill";
  fields["version"] = 1;
  fields["arithmetic"] = facts.arithmetic;
  fields["family"] = config.family;
  fields["model"] = arithmetic_json(config);
  fields["weights"] = facts.weights.hex();
  fields["isa_rung"] = facts.isa_rung;
  return Identity::of(std::move(fields));
}

}  // namespace isthmus

import numpy as np
import pandas as pd

import ocgl

rng = np.random.default_rng(0)  # a table of transactions: ids are text, and fraud is known two weeks later
fraud = rng.random(800) < 0.3
nodes = pd.DataFrame({"id": [f"tx-{i}" for i in range(800)], "day": np.arange(800) // 10})
nodes["amount"], nodes["country"] = rng.normal(size=800) + 2 * fraud, rng.choice(["it", "ch", "fr"], 800)
nodes["label"], nodes["known"] = np.where(fraud, "fraud", "fine"), nodes["day"] + 14
edges = pd.DataFrame({"source": nodes["id"][1:], "target": [f"tx-{rng.integers(i)}" for i in range(1, 800)]})

encoder = ocgl.FeatureEncoder.fit(nodes[nodes["day"] < 14], ["amount", "country"])  # nothing of the future
learner = ocgl.Learner("ridge", batch_size=10)
for day, today in nodes.groupby("day"):
    links = edges[edges["source"].isin(today["id"])]
    learner.add(today["id"], encoder.transform(today), [links["source"], links["target"]], today["day"])
    known = nodes[nodes["known"] == day]
    learner.learn(known["id"], known["label"])
print(learner.predict(["tx-799"]), learner.predict_proba(["tx-799"]).round(2), learner.classes)

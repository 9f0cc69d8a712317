(ns sessions)

(def names (atom {}))

(defn begin [name]
  (let [token (str (random-uuid))]
    (swap! names assoc token name)
    token))

(defn owner [token]
  (let [name (get @names token)]
    (swap! names dissoc token)
    name))

(defn end [token]
  (swap! names dissoc token))

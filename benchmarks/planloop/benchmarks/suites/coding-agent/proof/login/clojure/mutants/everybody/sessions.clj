(ns sessions)

(def names (atom {}))

(defn begin [name]
  (let [token (str (random-uuid))]
    (swap! names assoc token name)
    token))

(defn owner [_]
  (last (vals @names)))

(defn end [token]
  (swap! names dissoc token))
